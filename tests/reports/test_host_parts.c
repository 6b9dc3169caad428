#include "core/file.h"
#include "reports/machine/host_parts.h"
#include "tests/support/test.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// Two packages of one core each, every one with its memory; a GPU and a NIC on the second; a bridge
// to a sound card, which is nothing to training.
#define SETS(set)                                                                                 \
    " cpuset=\"" set "\" complete_cpuset=\"" set "\" nodeset=\"" set "\" complete_nodeset=\"" set \
    "\""
#define PACKAGE(index, set, memory, inside)                                                        \
    "<object type=\"Package\" os_index=\"" index "\" gp_index=\"1" index                           \
    "\"" SETS(set) "><object type=\"NUMANode\" os_index=\"" index "\" gp_index=\"2" index          \
                   "\"" SETS(set) " local_memory=\"" memory "\"/>"                                 \
                                  "<object type=\"L3Cache\" gp_index=\"3" index "\"" SETS(         \
                                      set) " cache_size=\"33554432\" depth=\"3\" "                 \
                                           "cache_linesize=\"64\" cache_associativity=\"16\""      \
                                           " cache_type=\"0\">"                                    \
                                           "<object type=\"Core\" os_index=\"" index               \
                                           "\" gp_index=\"4" index                                 \
                                           "\"" SETS(set) "><object type=\"PU\" os_index=\"" index \
                                                          "\" gp_index=\"5" index "\"" SETS(       \
                                                              set) "/></object></object>" inside   \
                                                                   "</object>"
#define DEVICE(index, class, ids, name, speed)                                            \
    "<object type=\"PCIDev\" gp_index=\"6" index "\" pci_busid=\"0000:4" index ":00.0\" " \
    "pci_type=\"" class " [" ids "] [0000:0000] a1\" pci_link_speed=\"" speed "\">" name  \
                        "</object>"

static const char SERVER[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE topology SYSTEM "
    "\"hwloc2.dtd\">\n"
    "<topology version=\"2.0\"><object type=\"Machine\" os_index=\"0\" gp_index=\"1\"" SETS(
        "0x00000003") " allowed_cpuset=\"0x00000003\" "
                      "allowed_nodeset=\"0x00000003\">" PACKAGE("0", "0x00000001", "1073741824", "")
                          PACKAGE("1", "0x00000002", "2147483648",
                                  "<object type=\"Bridge\" gp_index=\"9\" bridge_type=\"0-1\" "
                                  "depth=\"0\" "
                                  "bridge_pci=\"0000:[40-4f]\">" DEVICE(
                                      "1", "0302", "10de:20b2",
                                      "<info name=\"PCIDevice\" value=\"A100\"/>", "31.5")
                                      DEVICE("2", "0207", "15b3:101b",
                                             "<object type=\"OSDev\" gp_index=\"70\" "
                                             "name=\"mlx5_0\" osdev_type=\"3\"/>",
                                             "0.000000")
                                          DEVICE("3", "0403", "8086:0001", "",
                                                 "0.000000") "</object>") "</object></topology>\n";

// hwloc reads a machine that was saved in place of this one.
static void the_parts_of_a_saved_server_are_told(void **state)
{
    (void)state;
    struct arena arena = {0};
    struct err err = {0};
    char path[] = "/tmp/meshwright.XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0);
    assert_int_equal(close(file), 0);
    assert_true(file_write(path, SERVER, strlen(SERVER), &err));
    // Components that were named outside come before a file.
    assert_int_equal(unsetenv("HWLOC_COMPONENTS"), 0);
    assert_int_equal(setenv("HWLOC_XMLFILE", path, 1), 0);
    const char *text = host_parts_text(&arena);
    assert_int_equal(unlink(path), 0);
    assert_string_equal(text,
                        "NUMA node  cores  threads    memory\n"
                        "        0      1        1  1.00 GiB\n"
                        "        1      1        1  2.00 GiB\n"
                        "caches: 2 x L3 of 32.0 MiB\n"
                        "\n"
                        "device          NUMA node  address            link  name       as\n"
                        "GPU or display          1  0000:41:00.0  31.5 GB/s  A100\n"
                        "network                 1  0000:42:00.0          -  15b3:101b  mlx5_0\n");
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_parts_of_a_saved_server_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
