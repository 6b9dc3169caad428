// NVML as a library of our own (tests/gpu/nvml_stub.c), built here: by its name within the library
// it is taken for the driver's, also where there is one.
#include "reports/machine/nvml.h"
#include "tests/support/test.h"

#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

// Whether there is a compiler to build it with.
static bool build_stub(void)
{
    char path[64], command[256];
    snprintf(path, sizeof path, "/tmp/meshwright-nvml-%d.so", (int)getpid());
    snprintf(command, sizeof command,
             "gcc -shared -fPIC -Wl,-soname,libnvidia-ml.so.1 -o %s tests/gpu/nvml_stub.c", path);
    if (system(command) != 0) return false;
    void *library = dlopen(path, RTLD_NOW);
    unlink(path);
    return library != NULL;
}

static struct nvml_machine machine_of(struct arena *arena, const char *stub)
{
    struct nvml_machine machine;
    struct err err = {0};
    setenv("STUB", stub, 1);
    bool done = nvml_find(arena, &machine, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return machine;
}

static void eight_gpus_at_switches_are_a_node(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct found_facts found;
    const struct nvml_machine machine = machine_of(arena, "h100");
    assert_int_equal(machine.count, 8);
    assert_string_equal(machine.driver, "550.54.15");
    assert_true(nvml_facts(arena, &machine, &found, &err));
    assert_int_equal(found.gpus, 8);
    assert_string_equal(found.device, "h100-sxm5-80g");
    assert_string_equal(found.intra, "nvswitch");
    // 18 links of 25 GB/s; 16 lanes of 32 GT/s, 128 of 130 bits.
    assert_true(found.intra_bytes_per_s == 450e9);
    assert_true(found.pcie_bytes_per_s == 64e9 * (128.0 / 130));
    const char *text = nvml_text(arena, &machine);
    assert_non_null(strstr(text, "  7  NVIDIA H100 80GB HBM3  00000000:22:00.0  80.0 GiB  63.0 GB/s"
                                 "  18 to switches\n"));
    // A cluster that the planner reads.
    assert_non_null(found_cluster_text(arena, &found, "here", "NVML", &err));
}

static void links_between_gpus_are_counted_by_their_ends(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct found_facts found;
    const struct nvml_machine machine = machine_of(arena, "mesh");
    const int wanted[] = {1, 0, 0, 2};
    for (int i = 0; i < 4; i++)
        assert_int_equal(machine.gpus[2].links_to[i], wanted[i]);
    assert_int_equal(machine.gpus[2].link_count, 3);
    assert_non_null(strstr(nvml_text(arena, &machine), "  2 to GPU 1, 1 to GPU 2\n"));
    assert_true(nvml_facts(arena, &machine, &found, &err));
    assert_string_equal(found.intra, "nvlink");
    assert_true(found.intra_bytes_per_s == 75e9);
    assert_true(found.pcie_bytes_per_s == 16e9 * (128.0 / 130));
}

static void what_no_shipped_device_is_has_to_be_said(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct found_facts found;
    const struct nvml_machine machine = machine_of(arena, "pcie");
    assert_true(nvml_facts(arena, &machine, &found, &err));
    assert_string_equal(found.intra, "pcie");
    assert_null(found_cluster_text(arena, &found, "here", "nvml", &err));
    // What the library calls it is made plain.
    assert_string_equal(err.text,
                        "nvml does not say: device (--device, called NVIDIA T1000?[31m "
                        "(10de:1fb0)); --like CLUSTER takes what is missing from a shipped one");
}

static void gpus_of_two_kinds_are_no_node(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct found_facts found;
    const struct nvml_machine machine = machine_of(arena, "mixed");
    assert_false(nvml_facts(arena, &machine, &found, &err));
    assert_string_equal(err.text, "NVML: GPU 1 is NVIDIA A100-SXM4-80GB and GPU 0 NVIDIA H100 80GB "
                                  "HBM3: a node is of one kind");
}

static void without_a_driver_it_says_so(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    struct nvml_machine machine;
    setenv("STUB", "none", 1);
    assert_false(nvml_find(arena, &machine, &err));
    assert_int_equal(err.kind, ERR_SYSTEM);
    assert_string_equal(err.text, "NVML does not start: Driver Not Loaded");
}

int main(void)
{
    if (!build_stub()) {
        puts("1..0 # SKIP no gcc");
        return 0;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eight_gpus_at_switches_are_a_node),
        cmocka_unit_test(links_between_gpus_are_counted_by_their_ends),
        cmocka_unit_test(what_no_shipped_device_is_has_to_be_said),
        cmocka_unit_test(gpus_of_two_kinds_are_no_node),
        cmocka_unit_test(without_a_driver_it_says_so),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
