// What the page does beyond being read: tables sort by their columns and can be copied as Markdown.
(function () {
  "use strict";

  function cellsOf(row) {
    return Array.prototype.slice.call(row.cells);
  }

  function keyOf(cell) {
    var given = cell.getAttribute("data-sort");
    return given === null ? cell.textContent.trim() : Number(given);
  }

  function compare(a, b) {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b));
  }

  function sortBy(table, head, column) {
    var down = head.getAttribute("aria-sort") === "ascending";
    var body = table.tBodies[0];
    var rows = Array.prototype.slice.call(body.rows);
    rows.sort(function (a, b) {
      var order = compare(keyOf(a.cells[column]), keyOf(b.cells[column]));
      return down ? -order : order;
    });
    cellsOf(table.tHead.rows[0]).forEach(function (other) {
      other.removeAttribute("aria-sort");
    });
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    rows.forEach(function (row) {
      body.appendChild(row);
    });
  }

  function makeSortable(table) {
    cellsOf(table.tHead.rows[0]).forEach(function (head, column) {
      var button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      head.textContent = "";
      head.appendChild(button);
      button.addEventListener("click", function () {
        sortBy(table, head, column);
      });
    });
  }

  function markdownOf(table) {
    var lines = Array.prototype.map.call(table.rows, function (row) {
      return "| " + cellsOf(row).map(function (cell) {
        return cell.textContent.trim().replace(/\|/g, "\\|");
      }).join(" | ") + " |";
    });
    var marks = cellsOf(table.rows[0]).map(function (cell) {
      return cell.classList.contains("number") ? "---:" : "---";
    });
    lines.splice(1, 0, "| " + marks.join(" | ") + " |");
    return lines.join("\n") + "\n";
  }

  function copyText(text) {
    if (navigator.clipboard) return navigator.clipboard.writeText(text);
    // Pages from disk have no clipboard in some browsers: the old way.
    var area = document.createElement("textarea");
    area.value = text;
    document.body.appendChild(area);
    area.select();
    var done = document.execCommand("copy");
    area.remove();
    return done ? Promise.resolve() : Promise.reject();
  }

  function addCopy(table) {
    var button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "Copy as Markdown";
    button.addEventListener("click", function () {
      copyText(markdownOf(table)).then(function () {
        button.textContent = "Copied";
      }, function () {
        button.textContent = "Could not copy";
      });
    });
    table.parentNode.insertAdjacentElement("afterend", button);
  }

  Array.prototype.forEach.call(document.querySelectorAll("table.sortable"), function (table) {
    makeSortable(table);
    addCopy(table);
  });
}());
