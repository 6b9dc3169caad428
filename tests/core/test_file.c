#include "core/file.h"
#include "tests/support/test.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

// A folder of this test's own, removed by the test that made it.
static char *make_folder(struct arena *arena)
{
    char *folder = arena_copy(arena, "/tmp/meshwright-test-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return folder;
}

static int files_in(struct arena *arena, const char *folder)
{
    FILE *stream = popen(arena_print(arena, "ls -A %s | wc -l", folder), "r");
    int count = -1;
    assert_int_equal(fscanf(stream, "%d", &count), 1);
    pclose(stream);
    return count;
}

static void what_is_written_is_read(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *folder = make_folder(arena);
    const char *path = arena_print(arena, "%s/plan.json", folder);
    size_t bytes = 0;
    assert_true(file_write(path, "first", 5, &err));
    assert_int_equal(chmod(path, 0640), 0);
    assert_true(file_write(path, "sec\0nd", 6, &err));
    char *text = file_read(arena, path, 100, &bytes, &err);
    assert_int_equal(bytes, 6);
    assert_memory_equal(text, "sec\0nd", 7);
    struct stat status;
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0640);
    assert_int_equal(files_in(arena, folder), 1);
    unlink(path);
    rmdir(folder);
}

static void a_link_is_followed(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *folder = make_folder(arena);
    const char *path = arena_print(arena, "%s/real", folder);
    const char *link = arena_print(arena, "%s/link", folder);
    struct stat status;
    assert_true(file_write(path, "1", 1, &err));
    assert_int_equal(symlink("real", link), 0);
    assert_true(file_write(link, "22", 2, &err));
    assert_int_equal(lstat(link, &status), 0);
    assert_true(S_ISLNK(status.st_mode));
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_size, 2);
    unlink(link);
    unlink(path);
    rmdir(folder);
}

static void a_failed_write_leaves_the_old_file_and_no_other(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *folder = make_folder(arena);
    const char *path = arena_print(arena, "%s/plan.json", folder);
    struct file_writer writer;
    assert_true(file_write(path, "old", 3, &err));
    assert_true(file_open(&writer, path, &err));
    file_put(&writer, "new", 3);
    file_abort(&writer);
    assert_true(file_open(&writer, path, &err));
    file_put(&writer, "new", 3);
    writer.error = 28;  // as if the disk were full
    assert_false(file_commit(&writer, &err));
    assert_string_equal(err.text,
                        arena_print(arena, "cannot write %s: No space left on device", path));
    assert_int_equal(err.kind, ERR_SYSTEM);
    size_t bytes = 0;
    err = (struct err){0};
    assert_string_equal(file_read(arena, path, 100, &bytes, &err), "old");
    assert_int_equal(files_in(arena, folder), 1);
    unlink(path);
    rmdir(folder);
}

// The third cannot be written, for it is a folder: the first two stay as they were.
static void files_that_belong_together_are_written_together_or_not(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *folder = make_folder(arena);
    struct file_text files[] = {{arena_print(arena, "%s/old", folder), "before"},
                                {arena_print(arena, "%s/new", folder), "new"},
                                {arena_print(arena, "%s/below/last", folder), "last"}};
    size_t bytes = 0;
    assert_true(file_write_all(files, 1, &err));
    files[0].text = "after";
    assert_int_equal(mkdir(arena_print(arena, "%s/below", folder), 0777), 0);
    assert_int_equal(mkdir(files[2].path, 0777), 0);
    assert_false(file_write_all(files, 3, &err));
    assert_string_equal(err.text,
                        arena_print(arena, "cannot write %s: Is a directory", files[2].path));
    assert_string_equal(file_read(arena, files[0].path, 100, &bytes, &(struct err){0}), "before");
    assert_int_equal(files_in(arena, folder), 2);
    assert_int_equal(rmdir(files[2].path), 0);
    assert_int_equal(rmdir(arena_print(arena, "%s/below", folder)), 0);
    err = (struct err){0};
    assert_true(file_write_all(files, 3, &err));
    for (int i = 0; i < 3; i++) {
        assert_string_equal(file_read(arena, files[i].path, 100, &bytes, &err), files[i].text);
        assert_int_equal(unlink(files[i].path), 0);
    }
    assert_int_equal(rmdir(arena_print(arena, "%s/below", folder)), 0);
    assert_int_equal(rmdir(folder), 0);
}

// What does not fit on the disk is known before the first file is replaced.
static void a_full_disk_replaces_none_of_them(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *folder = make_folder(arena);
    const struct file_text files[] = {{arena_print(arena, "%s/one", folder), "one"},
                                      {"/dev/full", "two"}};
    assert_false(file_write_all(files, 2, &err));
    assert_string_equal(err.text, "cannot write /dev/full: No space left on device");
    assert_int_equal(files_in(arena, folder), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void a_device_is_written_in_place(void **state)
{
    (void)state;
    struct err err = {0};
    struct stat status;
    assert_true(file_write("/dev/null", "text", 4, &err));
    assert_int_equal(stat("/dev/null", &status), 0);
    assert_true(S_ISCHR(status.st_mode));
    assert_false(file_write("/dev/full", "text", 4, &err));
    assert_string_equal(err.text, "cannot write /dev/full: No space left on device");
}

static void a_wrong_path_is_named(void **state)
{
    struct err err = {0};
    size_t bytes = 0;
    assert_false(file_write("/none/x.json", "text", 4, &err));
    assert_string_equal(err.text, "cannot write /none/x.json: No such file or directory");
    err = (struct err){0};
    assert_null(file_read(*state, "tests/none.json", 100, &bytes, &err));
    assert_string_equal(err.text, "cannot read tests/none.json: No such file or directory");
    err = (struct err){0};
    assert_null(file_read(*state, "/dev/zero", 1000, &bytes, &err));
    assert_string_equal(err.text, "cannot read /dev/zero: it is larger than 1000 bytes");
    err = (struct err){0};
    assert_non_null(file_read(*state, "/dev/null", 1000, &bytes, &err));
    assert_int_equal(bytes, 0);
}

static void shipped_files_are_found_by_name(void **state)
{
    struct err err = {0};
    const char *path = file_find_data(*state, "topologies", "dgx-a100-80g", "cluster", &err);
    assert_non_null(path);
    assert_true(file_exists(path));
    assert_string_equal(file_find_data(*state, "topologies", "a/b", "cluster", &err), "a/b");
    assert_string_equal(file_find_data(*state, "topologies", "b.json", "cluster", &err), "b.json");
    assert_null(file_find_data(*state, "topologies", "dgx-a100-80", "cluster", &err));
    const char *start = "no cluster is called \"dgx-a100-80\", did you mean \"dgx-a100-80g\"? "
                        "There are: a100-";
    assert_memory_equal(err.text, start, strlen(start));
    assert_int_equal(err.kind, ERR_INPUT);
}

static void shipped_names_are_sorted(void **state)
{
    int count = 0;
    const char **names = file_list_data(*state, "topologies", &count);
    assert_true(count > 3);
    for (int i = 1; i < count; i++) {
        assert_true(strcmp(names[i - 1], names[i]) < 0);
    }
}

static bool begins_with_b(const char *name)
{
    return name[0] == 'b';
}

// By their bytes: "-" stands before ".", and names without an end before both. A folder's two names
// for itself and its parent are none.
static void what_a_folder_holds_is_listed_in_order(void **state)
{
    static const char *const NAMES[] = {"b.json", "a", "b-c.json", ".hidden", "b"};
    static const char *const WANTED[] = {".hidden", "a", "b", "b-c.json", "b.json"};
    const char *folder = make_folder(*state), **names;
    struct err err = {0};
    int count = 7;
    assert_int_equal(file_list(*state, folder, NULL, &names, &count), 0);
    assert_int_equal(count, 0);
    for (int i = 0; i < 5; i++)
        assert_true(file_write(arena_print(*state, "%s/%s", folder, NAMES[i]), "", 0, &err));
    assert_int_equal(file_list(*state, folder, NULL, &names, &count), 0);
    assert_int_equal(count, 5);
    for (int i = 0; i < 5; i++)
        assert_string_equal(names[i], WANTED[i]);
    assert_int_equal(file_list(*state, folder, begins_with_b, &names, &count), 0);
    assert_int_equal(count, 3);
    for (int i = 0; i < 3; i++)
        assert_string_equal(names[i], WANTED[2 + i]);
    for (int i = 0; i < 5; i++)
        unlink(arena_print(*state, "%s/%s", folder, NAMES[i]));
    assert_int_equal(rmdir(folder), 0);
    assert_int_equal(file_list(*state, folder, NULL, &names, &count), ENOENT);
    assert_int_equal(count, 0);
    assert_null(names);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),
        cmocka_unit_test(a_link_is_followed),
        cmocka_unit_test(a_failed_write_leaves_the_old_file_and_no_other),
        cmocka_unit_test(files_that_belong_together_are_written_together_or_not),
        cmocka_unit_test(a_full_disk_replaces_none_of_them),
        cmocka_unit_test(a_device_is_written_in_place),
        cmocka_unit_test(a_wrong_path_is_named),
        cmocka_unit_test(shipped_files_are_found_by_name),
        cmocka_unit_test(shipped_names_are_sorted),
        cmocka_unit_test(what_a_folder_holds_is_listed_in_order),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
