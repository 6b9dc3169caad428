# make          builds build/meshwright
# make demo     plans and simulates one shipped model, from a bare Debian on
# make test     unit, transcript and style tests, from a bare Debian on
# make check    the long tests, sanitizers, clang, clang-tidy, clang-format, a short fuzz
# make mutants  plants faults, one at a time, and counts those that unit tests find
# make bench    speed
# make accuracy scores predictions against published runs; UPDATE=1 accepts the figures
# make judges   puts drawn exports through the targets' own parsers; downloads 5 GB
# make wasm     the planner for the pages of reports; needs emscripten, and nothing else needs it
# make install  to DESTDIR/PREFIX; make uninstall takes it away
# make deb      a Debian package of it; make wheel a Python wheel with the binary
BUILD ?= build
PREFIX ?= /usr/local
SANITIZE ?=
STRICT = -fno-sanitize-recover=all
FUZZ_SECONDS ?= 20
FUZZ_SEED ?= 1
JOBS ?= $(shell nproc)
CC := $(if $(filter default,$(origin CC)),gcc,$(CC))

FOLDERS = core topologies models plan cost_models simulator memory \
          planner validation executor reports exchange library cli
DATA = $(wildcard $(addsuffix /*.json,topologies topologies/devices topologies/kernels \
                  topologies/offers topologies/schema models models/zoo models/defaults \
                  models/recommenders plan plan/tables cost_models cost_models/stacks \
                  cost_models/tables cost_models/schema memory reports reports/schema \
                  executor executor/results exchange))

WARNINGS = -Wall -Wextra -Wconversion -Wshadow -Werror
CFLAGS ?= -O2 -g
# A product is rounded before it is added, on every machine: equal inputs give equal bytes.
ALL_CFLAGS = -std=c17 -D_GNU_SOURCE -I. -I$(GENERATED) $(WARNINGS) -ffp-contract=off $(CFLAGS) \
             $(SANITIZE) -MMD -MP
LIBRARIES = -Wl,--as-needed -lglpk -lhwloc -lcjson -lprotobuf-c -lz -lm

# protoc-c makes the reader of ONNX's messages; sources include it by the path of its definition.
GENERATED = $(BUILD)/generated
MESSAGES = $(GENERATED)/models/onnx/onnx.pb-c
# The style and the script of the report page, as texts that a source includes.
PAGE_PARTS = $(addprefix $(GENERATED)/reports/page/,page.css.inc page.js.inc what_if.css.inc \
                 what_if.js.inc what_if_choices.js.inc planner.js.inc)
# The options of other programs, as texts too.
OPTION_TABLES = $(patsubst %,$(GENERATED)/%.inc,$(wildcard exchange/options/*.tsv))

# One folder deeper as well (models/families/); of executor/ the floors that are no plug-ins.
PLUGIN_FOLDERS = $(addprefix executor/,cpu cuda mpi nccl)
SOURCES = $(filter-out executor/contraction.c executor/merged.c $(addsuffix /%,$(PLUGIN_FOLDERS)), \
          $(wildcard $(addsuffix /*.c,$(FOLDERS)) $(addsuffix /*/*.c,$(FOLDERS))))
OBJECTS = $(SOURCES:%.c=$(BUILD)/%.o) $(MESSAGES).o
MODULES = $(filter-out $(BUILD)/cli/main.o,$(OBJECTS))
# Tests lie in folders as what they test does; their programs stand side by side.
TESTS = $(addprefix $(BUILD)/tests/,$(basename $(notdir $(wildcard tests/*/test_*.c))))
FUZZERS = $(addprefix build/fuzz/tests/,$(basename $(notdir $(wildcard tests/fuzz/*.c))))
BENCHES = $(addprefix $(BUILD)/tests/,$(basename $(notdir $(wildcard tests/bench/bench_*.c))))
PRELOADS = tests/support/malloc_fail.c tests/support/trace_lines.c
HELPERS = $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/support/test_% tests/support/draw_% \
            tests/support/mpi_peer.c tests/support/io_fail.c $(PRELOADS), \
            $(wildcard tests/support/*.c tests/bench/plain_gpt2*.c)))
SCRIPTS = $(sort $(wildcard tests/*.t))
# Plug-ins of the executor, opened at run time: the binary itself needs none of their libraries.
CPU_SOURCES = $(wildcard executor/cpu/*.c) executor/contraction.c executor/merged.c
MPI_SOURCES = $(wildcard executor/mpi/*.c executor/communicators/between*.c) \
              executor/communicators/sum.c
MPICC := $(shell command -v mpicc)
CUDA_HOME ?= $(or $(wildcard /usr/local/cuda),$(patsubst %/bin/nvcc,%,$(shell command -v nvcc)))
HAVE_NVCC := $(wildcard $(CUDA_HOME)/bin/nvcc)
HAVE_CUDNN := $(firstword $(wildcard $(CUDA_HOME)/include/cudnn.h /usr/include/cudnn.h))
CUDA_COMMON = $(filter-out executor/cuda/sdpa%.c executor/cuda/cudnn%.c, \
                            $(wildcard executor/cuda/*.c)) \
              executor/contraction.c executor/merged.c plan/unfused.c
SDPA_SOURCES = sdpa.c sdpa_graph.c sdpa_plan.c
CUDA_SOURCES = $(CUDA_COMMON) \
               $(if $(HAVE_CUDNN),$(addprefix executor/cuda/,$(SDPA_SOURCES) cudnn_library.c), \
                    executor/cuda/sdpa_none.c)
CUDA_KERNELS = $(wildcard executor/cuda/*.cu)
HAVE_NCCL := $(and $(HAVE_NVCC),$(firstword $(wildcard $(CUDA_HOME)/include/nccl.h \
                                                        /usr/include/nccl.h)))
NCCL_SOURCES = $(wildcard executor/nccl/*.c)
PLUGINS = $(BUILD)/exec_cpu.so $(BUILD)/exec_cpu64.so $(if $(MPICC),$(BUILD)/exec_mpi.so) \
          $(if $(HAVE_NVCC),$(BUILD)/exec_cuda.so) $(if $(HAVE_NCCL),$(BUILD)/exec_nccl.so)
# Plug-ins export the same names, each to its own reader: no violation of the one-definition rule.
# What hwloc reads of PCI comes by a plug-in of its own, which gives not all of its memory back.
PROVE = env -u COLUMNS $(if $(SANITIZE),ASAN_OPTIONS=detect_odr_violation=0 HWLOC_COMPONENTS=-pci) \
        BUILD=$(BUILD) CMOCKA_MESSAGE_OUTPUT=TAP PERL5LIB=tests prove --harness=Skipped \
        -j$(JOBS) -e '' --timer
QUIET_MAKE = $(MAKE) --no-print-directory -s -j$(JOBS)

.PHONY: deb wheel all demo test check judges accuracy bench bench_programs gpu_programs gpu_bundle \
        wasm install uninstall clean deps check_deps mutants mutant_programs mutant_judges \
        test_programs check_draws check_long check_alone check_sanitized sanitized check_clang \
        check_tidy check_format check_sdpa check_planted check_simulation check_fuzz check_abi FORCE
.SECONDARY:

# Beside the planner's module: the runs that reports set beside a plan.
PUBLISHED = build/validation/published.jsonl
all: $(BUILD)/meshwright $(PLUGINS) $(PUBLISHED)

$(PUBLISHED): tests/validation/published.jsonl
	@mkdir -p $(@D)
	cp $< $@

$(BUILD)/meshwright: $(OBJECTS)
	$(CC) $(SANITIZE) -o $@ $^ $(LIBRARIES)
# The library for programs of others (library/meshwright.h): only the names of its map are seen.
LIBRARY_MAP = library/meshwright.map
LIBRARY_FILE = $(BUILD)/library/libmeshwright.so.0
LIBRARY_OBJECTS = $(filter-out $(BUILD)/cli/%,$(MODULES))
$(LIBRARY_FILE): $(LIBRARY_OBJECTS) $(LIBRARY_MAP)
	$(CC) $(SANITIZE) -shared -Wl,-soname,libmeshwright.so.0 -Wl,--version-script=$(LIBRARY_MAP) \
	    -Wl,-z,text -o $@ $(LIBRARY_OBJECTS) $(LIBRARIES)
# What reads variables of the C library is position-independent for it.
$(addprefix $(BUILD)/,core/arena.o core/console.o core/progress.o executor/launcher/start.o \
    reports/page/gnuplot.o): ALL_CFLAGS += -fPIC

$(BUILD)/libmeshwright.a: $(MODULES)
$(BUILD)/libmeshwright.so: $(MODULES)
	$(CC) $(SANITIZE) -shared -o $@ $^ $(LIBRARIES)
$(BUILD)/libhelpers.a: $(HELPERS)
$(BUILD)/lib%.a:
	@mkdir -p $(@D)
	rm -f $@
	ar rcs $@ $^

$(BUILD)/%.o: %.c Makefile | $(MESSAGES).h $(PAGE_PARTS) $(OPTION_TABLES)
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -c -o $@ $<

# The CPU back end, once with single and once with double precision. Vector code without regard to
# alignment (gcc's peeling; clang does none): results must not depend on where a plan puts an array.
# Clang warns of loops that it leaves as they are.
VECTORS = $(if $(findstring clang,$(CC)),-Wno-pass-failed,--param=vect-max-peeling-for-alignment=0)
KERNEL_CFLAGS = -O3 -fopenmp-simd -fno-math-errno -fno-trapping-math -ffp-contract=fast \
                $(VECTORS) -fPIC -fvisibility=hidden
$(BUILD)/exec_cpu.so: $(CPU_SOURCES:%.c=$(BUILD)/%.fp32.o)
$(BUILD)/exec_cpu64.so: $(CPU_SOURCES:%.c=$(BUILD)/%.fp64.o)
$(BUILD)/exec_cpu.so $(BUILD)/exec_cpu64.so:
	$(CC) $(SANITIZE) -shared -o $@ $^ -lopenblas -lm
$(BUILD)/%.fp32.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) -DREAL=float -c -o $@ $<
$(BUILD)/%.fp64.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(KERNEL_CFLAGS) -DREAL=double -DREAL_IS_DOUBLE -c -o $@ $<

# A baseline of speed, with the flags that its original is published with.
$(BUILD)/tests/bench/plain_gpt2%o: CFLAGS = -Ofast -march=native

# MPI between ranks, where there is an MPI. Its headers are not ours to warn about.
MPI_CFLAGS = $(patsubst -I%,-isystem %,$(filter -I%,$(shell $(MPICC) -show)))
MPI_LIBRARIES = $(filter -L% -l% -Wl%,$(shell $(MPICC) -show))
$(BUILD)/exec_mpi.so: $(MPI_SOURCES:%.c=$(BUILD)/%.mpi.o)
	$(CC) $(SANITIZE) -shared -o $@ $^ $(MPI_LIBRARIES)
$(BUILD)/%.mpi.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(MPI_CFLAGS) -fPIC -c -o $@ $<

# CUDA, where there is an nvcc: code of Ampere, Hopper and Blackwell, and PTX for what comes after.
# libcuda is the driver's and never linked: the libraries open it where there is a device.
CUDA_FLAGS = -std=c++17 -O3 -I. --compress-mode=size -Xcompiler -fPIC,-fvisibility=hidden,-Wall \
             -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90a,code=sm_90a \
             -gencode arch=compute_100,code=sm_100 \
             -gencode arch=compute_80,code=compute_80
CUDA_FOLDER = $(CUDA_HOME)/lib64
$(BUILD)/exec_cuda.so: $(CUDA_SOURCES:%.c=$(BUILD)/%.cuda.o) $(CUDA_KERNELS:%.cu=$(BUILD)/%.cu.o)
	$(CC) $(SANITIZE) -shared -o $@ $^ -L$(CUDA_FOLDER) -Wl,-rpath,$(CUDA_FOLDER) \
	    -Wl,-rpath,'$$ORIGIN' -lcudart -lcublas -lcublasLt -lstdc++ \
	    -lm
$(BUILD)/%.cuda.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -isystem $(CUDA_HOME)/include -fPIC -fvisibility=hidden -c -o $@ $<
# What each kernel needs of a multiprocessor is kept beside its object (tests/cuda_resources.t).
$(BUILD)/%.cu.o: %.cu Makefile
	@mkdir -p $(@D)
	@echo $(CUDA_HOME)/bin/nvcc -c -o $@ $<
	@$(CUDA_HOME)/bin/nvcc $(CUDA_FLAGS) -Xptxas -v -MMD -MP -c -o $@ $< 2>$(@:.o=.usage) || \
	    { cat $(@:.o=.usage) >&2; exit 1; }

# NCCL between GPUs, where there is one beside CUDA.
$(BUILD)/exec_nccl.so: $(NCCL_SOURCES:%.c=$(BUILD)/%.cuda.o)
	$(CC) $(SANITIZE) -shared -o $@ $^ -L$(CUDA_FOLDER) -Wl,-rpath,$(CUDA_FOLDER) \
	    -Wl,-rpath,'$$ORIGIN' -lnccl -lcudart -lpthread

# Has cuDNN compile its plans without a device: it wants the driver's library by name, and one that
# loads what it made, over the toolkit's stub under another name of equal length, is enough.
CUDA_STUB = $(wildcard $(CUDA_FOLDER)/stubs/libcuda.so)
SDPA_SHAPES = $(if $(and $(HAVE_NVCC),$(HAVE_CUDNN),$(CUDA_STUB)),$(BUILD)/tests/sdpa_shapes \
                   $(BUILD)/tests/stub/libcuda.so.1)
$(BUILD)/tests/sdpa_shapes: $(BUILD)/tests/gpu/sdpa_shapes.cuda.o \
                            $(BUILD)/executor/cuda/sdpa_graph.cuda.o \
                            $(BUILD)/executor/cuda/sdpa_plan.cuda.o \
                            $(BUILD)/executor/cuda/cudnn_library.cuda.o
	$(CC) $(SANITIZE) -o $@ $^ -Wl,-rpath,$(CUDA_FOLDER) -ldl
$(BUILD)/tests/stub/libcuda.so.1: tests/gpu/only_load.c $(CUDA_STUB)
	@mkdir -p $(@D)
	sed 's/libcuda\.so\.1/libstub.so.1/' $(CUDA_STUB) >$(@D)/libstub.so.1
	$(CC) $(ALL_CFLAGS) -fPIC -shared -Wl,--no-as-needed,-soname,libcuda.so.1 -o $@ $< \
	    -L$(@D) -l:libstub.so.1

# The planner as a module of reports' pages: what a search needs, with stand-ins (wasm/) for the
# libraries and files that a page has none of. One for all of the BUILDs.
EMCC := $(shell command -v emcc)
MODULE = build/wasm/planner.wasm.gz
MODULE_FOLDERS = core topologies models models/families plan plan/layout plan/lower \
                 plan/schedules plan/script cost_models simulator \
                 planner wasm
MODULE_SOURCES = $(filter-out core/file% core/gzip.c core/trace.c, \
                     $(wildcard $(addsuffix /*.c,$(MODULE_FOLDERS)))) \
                 $(wildcard memory/keep/*keep*.c) \
                 $(addprefix reports/,machine/launch.c table/band_text.c table/model_text.c \
                     table/plan_json.c table/plan_table.c whatif/sweep.c) \
                 $(wildcard reports/page/replan*.c)
MODULE_CFLAGS = -std=c17 -D_GNU_SOURCE -I. -Ibuild/wasm/include $(WARNINGS) -ffp-contract=off -Os
MODULE_LINK = -Os --no-entry -s STANDALONE_WASM=1 -s FILESYSTEM=0 -s ALLOW_MEMORY_GROWTH=1 \
              -s MAXIMUM_MEMORY=4GB
wasm:
	@command -v emcc >/dev/null || { echo 'make wasm needs emcc: apt-get install emscripten'; exit 4; }
	@$(QUIET_MAKE) $(MODULE)
build/wasm/planner.wasm: $(MODULE_SOURCES:%.c=build/wasm/%.o)
	emcc $(MODULE_LINK) -o $@ $^
$(MODULE): build/wasm/planner.wasm
	gzip -9nc $< > $@.part && mv $@.part $@
build/wasm/%.o: %.c Makefile | build/wasm/include/cjson/cJSON.h
	@mkdir -p $(@D)
	emcc $(MODULE_CFLAGS) -MMD -MP -c -o $@ $<
CJSON_HEADERS = $(shell pkg-config --variable=includedir libcjson 2>/dev/null)
build/wasm/include/cjson/cJSON.h: $(CJSON_HEADERS)/cjson/cJSON.h
	@mkdir -p $(@D)
	cp $< $@

# The object of a program of tests, in whichever folder its source lies.
.SECONDEXPANSION:
object_of = $(patsubst %.c,$(BUILD)/%.o,$(wildcard tests/*/$(1).c))

# What tests/gpu/run.sh runs on a machine with a GPU.
GPU_TESTS = test_cpu_kernels test_cuda_backend test_cuda_families test_cuda_images \
            test_cuda_strided test_cuda_loops test_run_half test_grouped test_weight_sums
gpu_programs: $(BUILD)/meshwright $(PLUGINS) $(BUILD)/exec_cuda_emulated.so $(EMULATED) \
              $(addprefix $(BUILD)/tests/,gpu_compare $(GPU_TESTS)) $(BUILD)/emulated/gpu_compare
$(BUILD)/tests/gpu_compare: $(BUILD)/tests/gpu/compare.o $(BUILD)/libmeshwright.a | $(TEST_PLUGINS)
	$(CC) $(SANITIZE) -o $@ $^ $(LIBRARIES)
$(BUILD)/emulated/gpu_compare: $(BUILD)/tests/gpu_compare
	@mkdir -p $(@D)
	ln -f $< $@

# The same in one folder with the libraries that a machine without Debian's packages lacks, so that
# nothing is built there. An rpath of the old kind holds for what plug-ins need, too.
BUNDLE = $(BUILD)/gpu_bundle
BUNDLE_LINK = $(CC) -s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/lib:$$ORIGIN/../lib'
BUNDLED = $(BUNDLE)/meshwright $(addprefix $(BUNDLE)/tests/,gpu_compare $(GPU_TESTS)) \
          $(patsubst $(BUILD)/%,$(BUNDLE)/%,$(filter-out %/exec_mpi.so,$(PLUGINS))) \
          $(patsubst $(BUILD)/%,$(BUNDLE)/tests/%,$(filter-out %/exec_mpi.so,$(PLUGINS)))
gpu_bundle: $(BUNDLED)
	tests/gpu/bundle_libraries.sh $(BUNDLE)
$(BUNDLE)/meshwright: $(OBJECTS)
$(BUNDLE)/tests/gpu_compare: $(BUILD)/tests/gpu/compare.o $(BUILD)/libmeshwright.a
$(BUNDLE)/tests/test_%: $$(call object_of,test_$$*) $(BUILD)/libhelpers.a $(BUILD)/libmeshwright.a
	@mkdir -p $(@D)
	$(BUNDLE_LINK) -o $@ $^ -lcmocka $(LIBRARIES)
$(BUNDLE)/meshwright $(BUNDLE)/tests/gpu_compare:
	@mkdir -p $(@D)
	$(BUNDLE_LINK) -o $@ $^ $(LIBRARIES)
$(BUNDLE)/%.so: $(BUILD)/%.so
	@mkdir -p $(@D)
	strip -g -o $@ $<

# The same back end with its kernels as C on the host, for tests: see tests/gpu/emulate.h. Groups of
# GEMMs are not in it.
EMULATED_SOURCES = $(filter-out executor/cuda/gemm_group.c,$(CUDA_COMMON)) \
                   $(addprefix executor/cuda/,$(SDPA_SOURCES)) \
                   $(addprefix tests/gpu/emulate,.c _cublaslt.c _cudnn.c _cudnn_graph.c _gemm.c \
                               _launches.c _runtime.c _shadow.c _streams.c)
EMULATED_CFLAGS = -include tests/gpu/emulate.h -isystem tests/gpu -fPIC -fvisibility=hidden \
                  -fno-strict-aliasing
$(BUILD)/exec_cuda_emulated.so: $(EMULATED_SOURCES:%.c=$(BUILD)/%.emulated.o) \
                                $(CUDA_KERNELS:%.cu=$(BUILD)/%.cu.emulated.o)
	$(CC) $(SANITIZE) -shared -o $@ $^ -lm
# And with every access of its kernels told to a shadow (tests/gpu/emulate_shadow.h), which looks
# for races; without under sanitizers, which tell theirs. Beside it the programs that use it.
SHADOWED_FOLDER = $(BUILD)/shadowed
SHADOWED_TESTS = test_cuda_backend test_cuda_embedding test_cuda_families test_cuda_chosen \
                 test_cuda_images test_cuda_strided test_cuda_loops test_cuda_memory \
                 test_cuda_gemm test_cpu_kernels
SHADOWED_BESIDE = exec_cpu.so exec_cpu64.so meshwright
SHADOWED = $(if $(SANITIZE),,$(addprefix $(SHADOWED_FOLDER)/,exec_cuda.so exec_cuda_emulated.so \
               gpu_compare $(SHADOWED_BESIDE) $(SHADOWED_TESTS)))
$(SHADOWED_FOLDER)/exec_cuda_emulated.so: $(EMULATED_SOURCES:%.c=$(BUILD)/%.emulated.o) \
                                          $(CUDA_KERNELS:%.cu=$(BUILD)/%.cu.shadowed.o)
	@mkdir -p $(@D)
	$(CC) -shared -o $@ $^ -lm
# What gcc knows that nobody else has the address of, it would not tell. Words of 16 bytes that are
# not aligned are the end, as on a device.
SHADOWED_CFLAGS = $(EMULATED_CFLAGS) -fsanitize=thread,alignment \
                  -fsanitize-undefined-trap-on-error \
                  $(if $(findstring clang,$(CC)),,-fno-tree-pta)
$(BUILD)/%.cu.shadowed.o: %.cu Makefile
	@mkdir -p $(@D)
	$(CC) $(filter-out -Wconversion,$(ALL_CFLAGS)) $(SHADOWED_CFLAGS) -x c -c -o $@ $<
$(SHADOWED_FOLDER)/exec_cuda.so: $(SHADOWED_FOLDER)/exec_cuda_emulated.so
$(addprefix $(SHADOWED_FOLDER)/,gpu_compare $(SHADOWED_TESTS)): $(SHADOWED_FOLDER)/%: \
                                                                  $(BUILD)/tests/%
$(addprefix $(SHADOWED_FOLDER)/,$(SHADOWED_BESIDE)): $(SHADOWED_FOLDER)/%: $(BUILD)/%
$(filter-out %/exec_cuda_emulated.so,$(SHADOWED)):
	@mkdir -p $(@D)
	ln -f $< $@
# The binary beside it, which takes the back end in its own folder for the one of CUDA.
EMULATED_BESIDE = meshwright exec_cpu.so exec_cpu64.so $(if $(MPICC),exec_mpi.so)
EMULATED = $(addprefix $(BUILD)/emulated/,exec_cuda.so exec_nccl.so $(EMULATED_BESIDE))
$(addprefix $(BUILD)/emulated/,$(EMULATED_BESIDE)): $(BUILD)/emulated/%: $(BUILD)/%
$(BUILD)/emulated/exec_cuda.so: $(BUILD)/exec_cuda_emulated.so
$(BUILD)/emulated/exec_nccl.so: $(BUILD)/exec_nccl_emulated.so
$(EMULATED):
	@mkdir -p $(@D)
	ln -f $< $@
# The same for NCCL: ranks exchange through memory that they share.
EMULATED_NCCL = $(NCCL_SOURCES) tests/gpu/emulate_nccl.c tests/gpu/emulate_nccl_box.c \
                tests/gpu/emulate_nccl_work.c tests/gpu/emulate_nccl_stream.c
$(BUILD)/exec_nccl_emulated.so: $(EMULATED_NCCL:%.c=$(BUILD)/%.emulated.o)
	$(CC) $(SANITIZE) -shared -o $@ $^ -lm -lpthread
$(BUILD)/%.emulated.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) $(EMULATED_CFLAGS) -c -o $@ $<
$(BUILD)/%.cu.emulated.o: %.cu Makefile
	@mkdir -p $(@D)
	$(CC) $(filter-out -Wconversion,$(ALL_CFLAGS)) $(EMULATED_CFLAGS) -x c -c -o $@ $<

$(BUILD)/tests/mpi_peer.so: $(BUILD)/tests/support/mpi_peer.mpi.o
	$(CC) $(SANITIZE) -shared -o $@ $^ $(MPI_LIBRARIES)

# Generated code is not ours to warn about.
$(MESSAGES).c: models/onnx/onnx.proto
	@mkdir -p $(GENERATED)
	protoc-c --c_out=$(GENERATED) $<
$(MESSAGES).h: $(MESSAGES).c ;
$(MESSAGES).o: $(MESSAGES).c
	$(CC) -std=c17 -I$(GENERATED) $(CFLAGS) -w $(SANITIZE) -c -o $@ $<

# One text of C a line.
$(GENERATED)/%.inc: % Makefile
	@mkdir -p $(@D)
	sed 's/[\\"]/\\&/g; s/.*/"&\\n"/' $< > $@
$(BUILD)/reports/page/page_parts.o $(BUILD)/reports/page/page_planner.o: $(PAGE_PARTS)
$(BUILD)/exchange/option_table.o: $(OPTION_TABLES)

# What knows where files are installed is rebuilt when that changes.
PREFIXED = $(BUILD)/core/file_data.o
$(PREFIXED): ALL_CFLAGS += -DPREFIX='"$(PREFIX)"'
$(PREFIXED): $(BUILD)/prefix
$(BUILD)/prefix: FORCE
	@mkdir -p $(@D)
	@echo '$(PREFIX)' | cmp -s - $@ || echo '$(PREFIX)' > $@

# A binary opens the plug-ins of its own folder alone: tests have links to them beside them.
BESIDE_TESTS = $(notdir $(PLUGINS)) exec_cuda_emulated.so exec_nccl_emulated.so
TEST_PLUGINS = $(addprefix $(BUILD)/tests/,$(BESIDE_TESTS))
$(TEST_PLUGINS) $(addprefix $(BUNDLE)/tests/,$(BESIDE_TESTS)):
	@mkdir -p $(@D)
	ln -sf ../$(@F) $@
# No `make` makes these but for tests: whoever has a test made has them as new as their sources.
$(filter %_emulated.so,$(TEST_PLUGINS)): $(BUILD)/tests/%: $(BUILD)/%

# Three hundred programs of tests: gold takes half of the time of the usual linker.
FAST_LINK := $(if $(shell command -v ld.gold),-fuse-ld=gold)
MODULE_LIBRARY = $(BUILD)/libmeshwright.a
$(BUILD)/tests/test_%: $$(call object_of,test_$$*) $(BUILD)/libhelpers.a $(MODULE_LIBRARY) \
                       | $(TEST_PLUGINS)
	$(CC) $(SANITIZE) $(FAST_LINK) -o $@ $^ -lcmocka $(LIBRARIES)

$(BUILD)/tests/bench_%: $$(call object_of,bench_$$*) $(BUILD)/libhelpers.a \
                        $(BUILD)/libmeshwright.a | $(TEST_PLUGINS)
	$(CC) $(SANITIZE) -o $@ $^ $(LIBRARIES)

# Long draws, for who changes the search: tests/support/draw_proofs.c.
$(BUILD)/tests/draw_%: $$(call object_of,draw_$$*) $(BUILD)/libhelpers.a $(BUILD)/libmeshwright.a
	$(CC) $(SANITIZE) -o $@ $^ $(LIBRARIES)

# Fuzzers read files: what they need is built once more by clang, and not all there is.
FUZZED = $(filter-out executor exchange reports library cli,$(FOLDERS))
$(BUILD)/libfuzzed.a: $(filter $(FUZZED:%=$(BUILD)/%/%) $(MESSAGES).o,$(MODULES))
$(BUILD)/tests/fuzz_%: $$(call object_of,fuzz_$$*) $(BUILD)/libfuzzed.a
	$(CC) $(SANITIZE) -fsanitize=fuzzer -o $@ $^ $(LIBRARIES)

$(BUILD)/tests/io_fail: $(BUILD)/tests/support/io_fail.o
	$(CC) $(SANITIZE) -o $@ $^
$(PRELOADS:tests/support/%.c=$(BUILD)/tests/%.so): $(BUILD)/tests/%.so: tests/support/%.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -fPIC -shared -o $@ $<

deps check_deps:
	@tests/install_deps.sh $(filter check,$(@:_deps=))

demo: deps
	@$(QUIET_MAKE) all
	@mkdir -p build/demo
	build/meshwright plan llama-2-70b dgx-a100-80g-x16 --seq-len 4096 --global-batch 1024 \
	    -o build/demo/plan.json
	build/meshwright simulate build/demo/plan.json --trace build/demo/trace.json
	build/meshwright report build/demo/plan.json -o build/demo/report

test_programs: $(TESTS) $(BUILD)/meshwright $(PLUGINS) $(BUILD)/tests/malloc_fail.so \
               $(BUILD)/tests/io_fail $(PUBLISHED) \
               $(BUILD)/exec_cuda_emulated.so $(BUILD)/exec_nccl_emulated.so $(EMULATED) \
               $(SDPA_SHAPES) $(BUILD)/emulated/gpu_compare $(SHADOWED) $(if $(EMCC),$(MODULE))

# What takes longest is left to `make check`, which runs each of these once, most of them with
# sanitizers: with them `make test` would take three times as long.
LONG_SCRIPTS = adding batch_cap calibrate_cuda checkpoint dcp deep device_memory drawn_runs \
               executed gpu_run huggingface install io_fail io_fail_runs joined launches local \
               malloc_fail names planted policies readers report reshard restart run run_attention \
               run_experts run_nodes schema schemas strategy terminal trace training \
               transcript_long validate whatif whatif_modes
LONG_PROGRAMS = anchor auto_pins branches_search calibrate_device communicator_mpi cuda_sdpa \
                default_stack exchange fit fusion index_mutations index_sets meshes_auto \
                metamorphic money_places offload pins place_fewest place_tables proof proof_drawn \
                reference run_bits run_branches run_chosen run_experts run_families run_grid \
                run_half run_half_bits run_handed run_images run_nccl run_offload run_pooled \
                run_random run_scan run_ties run_video search streams whatif_between \
                whatif_placed
LONG = $(LONG_SCRIPTS:%=tests/%.t) $(LONG_PROGRAMS:%=$(BUILD)/tests/test_%)
# What takes longest begins first, so that no core is idle at the end.
LONGEST = $(addprefix tests/,transcript.t executed.t device_memory.t checkpoint.t run.t reshard.t \
              restart.t whatif_modes.t joined.t report.t names.t adding.t) \
          $(addprefix $(BUILD)/tests/test_,run_offload run_families exchange run_experts run_half \
              run_video)
longest_first = $(filter $(1),$(LONGEST)) $(filter-out $(LONGEST),$(1))
test: deps
	@$(QUIET_MAKE) test_programs
	@$(PROVE) $(call longest_first,$(filter-out $(LONG),$(TESTS) $(SCRIPTS)))

# Plants single-line faults and counts those that a unit test finds; MUTANTS='--count 500 --seed 1'
# and other options: tests/mutants.pl.
MUTANT_CFLAGS = -O2 -fPIC
TRACED_CFLAGS = -O1 -g1 -fPIC -fsanitize-coverage=trace-pc
mutants: check_deps
	@$(QUIET_MAKE) BUILD=build/mutants CFLAGS='$(MUTANT_CFLAGS)' \
	    MODULE_LIBRARY=build/mutants/libmeshwright.so mutant_programs
	@$(QUIET_MAKE) BUILD=build/mutants/traced CFLAGS='$(TRACED_CFLAGS)' WARNINGS=-w \
	    build/mutants/traced/libmeshwright.so
	@$(QUIET_MAKE) BUILD=build/mutants WARNINGS= mutant_judges
mutant_programs: $(TESTS) $(BUILD)/tests/trace_lines.so $(addprefix $(BUILD)/, exec_cpu.so \
                 exec_cpu64.so exec_cuda_emulated.so exec_nccl_emulated.so \
                 $(if $(MPICC),exec_mpi.so))
mutant_judges: CFLAGS = $(MUTANT_CFLAGS)
mutant_judges:
	@CC='$(CC)' COMPILE='$(CC) $(filter-out -MMD -MP,$(ALL_CFLAGS))' \
	    KERNEL_FLAGS='$(KERNEL_CFLAGS)' tests/mutants.pl $(MUTANTS)

check: check_deps check_long check_alone check_clang check_tidy check_draws check_abi \
       check_sanitized check_fuzz

# What keeps one core busy is done beside each other; all of it is built by then.
check_alone: check_deps
	@$(QUIET_MAKE) all test_programs
	@$(MAKE) --no-print-directory -j$(JOBS) --output-sync=target accuracy check_planted check_sdpa \
	    check_format

# The long tests that sanitizers do not run and check_draws does not draw more of.
check_long: check_deps
	@$(QUIET_MAKE) test_programs
	@$(PROVE) $(call longest_first,$(filter-out $(filter-out $(SHORTENED),$(SANITIZED)) \
	    $(DRAWN:%=$(BUILD)/tests/test_%) $(DRAWN_OFTEN:%=$(BUILD)/tests/test_%),$(LONG)))

check_format: check_deps
	clang-format --dry-run -Werror \
	    $(wildcard $(addsuffix /*.[ch],$(FOLDERS) wasm) \
	               $(addsuffix /*/*.[ch],$(FOLDERS) tests)) $(CUDA_KERNELS)

# Without nvcc, which has compiled the kernels: clang reads them as C, as the emulation does.
CUDA_FOR_CLANG = $(if $(HAVE_NVCC),$(CUDA_SOURCES:%.c=build/clang/%.cuda.o)) \
                 $(if $(HAVE_NCCL),$(NCCL_SOURCES:%.c=build/clang/%.cuda.o))
check_clang: check_deps
	@$(QUIET_MAKE) BUILD=build/clang CC=tests/clang_warns.sh HAVE_NVCC= HAVE_NCCL= \
	    test_programs bench_programs $(CUDA_FOR_CLANG)

# The analyzer gives a function up after so many states: an eighth of clang's default, for a fifth
# of the time. TIDY_STATES=225000 is the default.
TIDY_STATES ?= 30000
TIDY_FLAGS = -std=c17 -D_GNU_SOURCE -I. -I$(GENERATED) \
             -Xclang -analyzer-config -Xclang max-nodes=$(TIDY_STATES)
# $(1): what its compiler is told beside these; $(2): further options of clang-tidy.
tidy = xargs -r -P$(JOBS) -n4 \
    sh -c 'clang-tidy --quiet $(2) "$$@" -- $(TIDY_FLAGS) $(1) 2>/dev/null' clang-tidy
check_tidy: check_deps $(MESSAGES).h $(PAGE_PARTS) $(OPTION_TABLES)
	printf '%s\n' $(SOURCES) $(wildcard wasm/*.c) | $(call tidy)
	printf '%s\n' $(CPU_SOURCES) | $(call tidy,-DREAL=float)
	printf '%s\n' $(sort $(EMULATED_SOURCES) $(EMULATED_NCCL)) | \
	    $(call tidy,-include tests/gpu/emulate.h -isystem tests/gpu)
	@# Requests are tested until they are done, which clang-tidy's checker of MPI does not know.
	printf '%s\n' $(if $(MPICC),$(MPI_SOURCES)) | \
	    $(call tidy,$(MPI_CFLAGS),--checks=-clang-analyzer-optin.mpi.MPI-Checker)

# What programs linked with the library rely on.
check_abi: check_deps
	@$(QUIET_MAKE) $(LIBRARY_FILE)
	tests/abi.sh $(LIBRARY_FILE)

# cuDNN's plans for every shape of attention in the zoo; `make test` asks for a few.
check_sdpa: check_deps
	@$(QUIET_MAKE) $(BUILD)/tests/test_cuda_sdpa $(SDPA_SHAPES)
	MESHWRIGHT_CASES=1000 $(BUILD)/tests/test_cuda_sdpa

# Faults in the source of the CUDA back end, each of which the emulation must find.
PLANTED_CFLAGS = $(filter-out -Wconversion -MMD -MP,$(ALL_CFLAGS)) -w
check_planted: check_deps
	@$(QUIET_MAKE) $(SHADOWED)
	@PLANTED_KERNEL='$(CC) -I$(BUILD)/planted $(PLANTED_CFLAGS) $(SHADOWED_CFLAGS) -x c -c' \
	    PLANTED_SOURCE='$(CC) $(PLANTED_CFLAGS) $(EMULATED_CFLAGS) -c' \
	    PLANTED_OBJECTS='$(EMULATED_SOURCES:%.c=$(BUILD)/%.emulated.o) \
	        $(CUDA_KERNELS:%.cu=$(BUILD)/%.cu.shadowed.o)' CC='$(CC)' \
	    $(PROVE) tests/gpu/planted_faults.t

# What `make test` draws a few times, many times.
DRAWN = search search_stays idle index_mutations proof metamorphic_search lower_random run_random \
        run_half_random run_experts run_shards run_layouts run_meshes run
DRAWN_OFTEN = metamorphic index_sets
check_draws: check_deps
	@$(QUIET_MAKE) $(patsubst %,$(BUILD)/tests/test_%,$(DRAWN) $(DRAWN_OFTEN) closed_form) $(PLUGINS) \
	    $(BUILD)/exec_cuda_emulated.so
	@MESHWRIGHT_CASES=40 $(PROVE) $(DRAWN:%=$(BUILD)/tests/test_%)
	@MESHWRIGHT_CASES=1500 $(PROVE) $(DRAWN_OFTEN:%=$(BUILD)/tests/test_%)
	@MESHWRIGHT_CASES=20000 $(PROVE) $(BUILD)/tests/test_closed_form

# Everything that is read, kept in memory or run by ranks; not what reads sources, looks at pages,
# installs, plants faults that sanitizers are in the way of, asks the same code once more (of
# searches and of runs that are equal to the bit) or counts for long in one loop. Warnings are those
# of the plain builds: with sanitizers gcc has false ones. Kernels of CUDA are those of the
# emulation: nvcc makes the same whatever gcc is told.
UNSANITIZED_SCRIPTS = adding batch_cap calibrate_cuda cuda_resources determinism gpu_bundle \
                      gpu_run install io_fail io_fail_runs joined kernels_account launches layers \
                      links local malloc_fail names no_cuda output planted readme report restart \
                      run_nodes schema schemas strategy terminal tidy transcript_long validate \
                      wasm what_if whatif whatif_modes
UNSANITIZED_PROGRAMS = anchor band_make branches_search breakdown cuda_sdpa default_stack \
                       evoformer_reference fit fusion index_mutations index_sets meshes_auto \
                       metamorphic money_places offload pins place_fewest proof proof_drawn \
                       run_bits run_half_bits search sensitivity space_list stdit_reference \
                       strategy_search whatif_between whatif_placed
UNSANITIZED_TRANSCRIPTS = layouts money readme recommendation whatif
# Of these a few cases will do with sanitizers; without them they are asked all.
SHORTENED = $(addprefix tests/,executed.t device_memory.t drawn_runs.t) \
            $(addprefix $(BUILD)/tests/test_,run_random run_half_random run_layouts run_meshes \
                run_shards lower_random layout_rules metamorphic_search moves closed_form)
SANITIZED = $(filter-out $(UNSANITIZED_SCRIPTS:%=tests/%.t) \
                $(UNSANITIZED_PROGRAMS:%=$(BUILD)/tests/test_%),$(TESTS) $(SCRIPTS))
check_sanitized: check_deps
	@$(QUIET_MAKE) BUILD=build/san SANITIZE='-fsanitize=address,undefined $(STRICT) -no-pie' \
	    CFLAGS='-O1 -g1' WARNINGS=-w HAVE_NVCC= HAVE_NCCL= sanitized
# Not position-independent: half a million places in the sanitizers' tables would be relocated at
# each of thousands of starts.
sanitized: test_programs
	@MESHWRIGHT_CASES=2 $(PROVE) $(SHORTENED)
	@TRANSCRIPTS_LEFT_OUT='$(UNSANITIZED_TRANSCRIPTS)' \
	    $(PROVE) $(call longest_first,$(filter-out $(SHORTENED),$(SANITIZED)))

# Start-up, heartbeats, checkpoints and restarts in worlds made of 100,000 seeds each (75 s of one
# core); a failure prints its seed, and `build/tests/test_X SEED` runs that one again.
SIMULATED = $(addprefix $(BUILD)/tests/test_,nodes_simulated restarts_simulated checkpoint_faults)
check_simulation: $(SIMULATED)
	for program in $(SIMULATED); do $$program 1 100000 || exit; done

# The programs share the seconds; what one finds new is kept apart from what the others read.
FUZZ_SHARE = $$(($(FUZZ_SECONDS) / $(words $(FUZZERS)) + 1))
FUZZ_SEEDS = tests/data topologies models/zoo cost_models/stacks
check_fuzz: check_deps
	@$(QUIET_MAKE) BUILD=build/fuzz CC=clang CFLAGS='-O1 -g1' $(FUZZERS) \
	    SANITIZE='-fsanitize=fuzzer-no-link,address,undefined $(STRICT)'
	@for fuzzer in $(FUZZERS); do \
	    mkdir -p $$fuzzer.corpus && echo $$fuzzer && \
	    $$fuzzer -max_total_time=$(FUZZ_SHARE) -verbosity=0 -timeout=30 \
	        -artifact_prefix=build/fuzz/ $$fuzzer.corpus $(FUZZ_SEEDS) || exit; done

# The targets' own parsers, from the Python package index; nothing else needs them.
judges: deps
	@$(QUIET_MAKE) all $(BUILD)/tests/test_exchange
	@tests/judges/judges.sh $(BUILD)

# Rows that nothing was fitted to come first. Fails when a headline figure or a family is worse than
# the committed one; the other tiers get a line each.
RUNS = tests/validation
LEFT_OUT = $(addprefix --left-out ,$(wildcard $(RUNS)/left_out.json))
HEADLINE = $(if $(UPDATE),--headline-out $(RUNS)/headline.json --plot docs/accuracy.svg, \
             --headline $(RUNS)/headline.json)
BLIND = --headline$(if $(UPDATE),-out) $(RUNS)/later_headline.json
# The bands that are shipped are those of the runs.
BANDS = $(if $(UPDATE),cost_models,$(BUILD))/bands.json
accuracy: deps
	@$(QUIET_MAKE) all
	@$(BUILD)/meshwright validate $(RUNS)/later.jsonl --blind $(BLIND) \
	    $(if $(LEFT_OUT),--bands-out $(BANDS) --force)
	@$(if $(LEFT_OUT),cmp $(BANDS) cost_models/bands.json)
	@echo
	@$(BUILD)/meshwright validate $(RUNS)/c21.jsonl --rates
	@echo
	@$(BUILD)/meshwright validate $(RUNS)/published.jsonl $(LEFT_OUT) $(HEADLINE) \
	    $(if $(LEFT_OUT),--bands-out $(BANDS) --force)
	@$(if $(LEFT_OUT),cmp $(BANDS) cost_models/bands.json)

bench_programs: $(BENCHES) $(PLUGINS) $(if $(MPICC),$(BUILD)/tests/mpi_peer.so)

bench: deps
	@$(QUIET_MAKE) bench_programs
	@for bench in $(BENCHES); do $$bench || exit; done

# Man pages and completions are made by what was built, from its own tables of options. What of
# them is installed is listed once, so that uninstall takes the same away.
MAN_PAGES = $(BUILD)/man/meshwright.1 $(patsubst %,$(BUILD)/man/meshwright-%.1,$(COMMANDS))
COMMANDS = $(sort $(shell sed -n 's/^    {"\([a-z-]*\)", .*_command,.*/\1/p' cli/commands.c))
$(BUILD)/man/meshwright.1: $(BUILD)/meshwright
	@mkdir -p $(@D)
	$< man > $@.part && mv $@.part $@
$(BUILD)/man/meshwright-%.1: $(BUILD)/meshwright
	@mkdir -p $(@D)
	$< man $* > $@.part && mv $@.part $@
$(BUILD)/completion.bash $(BUILD)/completion.zsh: $(BUILD)/completion.%: $(BUILD)/meshwright
	$< completion $* > $@.part && mv $@.part $@

SHARE = $(DESTDIR)$(PREFIX)/share
LIBRARY = $(DESTDIR)$(PREFIX)/lib/meshwright
LIBRARY_LINK = $(DESTDIR)$(PREFIX)/lib/libmeshwright.so
LIBRARY_HEADER = $(DESTDIR)$(PREFIX)/include/meshwright.h
LIBRARY_PC = $(DESTDIR)$(PREFIX)/lib/pkgconfig/meshwright.pc
LIBRARY_VERSION = $(shell sed -n 's/^.define MESHWRIGHT_VERSION "\(.*\)"/\1/p' core/version.h)
COMPLETE_BASH = $(SHARE)/bash-completion/completions/meshwright
COMPLETE_ZSH = $(SHARE)/zsh/site-functions/_meshwright
INSTALLED_MODULE = $(SHARE)/meshwright/wasm/planner.wasm.gz
INSTALLED_RUNS = $(SHARE)/meshwright/validation/published.jsonl
install: all $(LIBRARY_FILE) $(MAN_PAGES) $(BUILD)/completion.bash $(BUILD)/completion.zsh
	install -D -m 755 $(BUILD)/meshwright $(DESTDIR)$(PREFIX)/bin/meshwright
	install -D -m 755 -t $(LIBRARY) $(PLUGINS)
	install -D -m 755 -t $(DESTDIR)$(PREFIX)/lib $(LIBRARY_FILE)
	ln -sf libmeshwright.so.0 $(LIBRARY_LINK)
	install -D -m 644 library/meshwright.h $(LIBRARY_HEADER)
	@mkdir -p $(dir $(LIBRARY_PC))
	@# Relative to the file itself, so that the tree can be moved.
	@printf '%s\n' 'prefix=$${pcfiledir}/../..' 'Name: meshwright' \
	    'Description: plans, predictions and what-if of large training runs' \
	    'Version: $(LIBRARY_VERSION)' 'Cflags: -I$${prefix}/include' \
	    'Libs: -L$${prefix}/lib -lmeshwright' >$(LIBRARY_PC)
	install -D -m 644 -t $(SHARE)/man/man1 $(MAN_PAGES)
	install -D -m 644 $(BUILD)/completion.bash $(COMPLETE_BASH)
	install -D -m 644 $(BUILD)/completion.zsh $(COMPLETE_ZSH)
	@for file in $(DATA); do \
	    install -D -m 644 $$file $(SHARE)/meshwright/$$file || exit; done
	install -D -m 644 $(PUBLISHED) $(INSTALLED_RUNS)
	@[ ! -e $(MODULE) ] || install -D -m 644 $(MODULE) $(INSTALLED_MODULE)

# A Debian package of what install puts below /usr. What it depends on are the packages of the
# libraries that binary, library and plug-ins are linked with; MPI and gnuplot are only recommended.
DEB_STAGE = $(BUILD)/deb
DEB_ARCHITECTURE = $(shell dpkg --print-architecture 2>/dev/null)
DEB = $(BUILD)/meshwright_$(LIBRARY_VERSION)_$(DEB_ARCHITECTURE).deb
deb:
	@command -v dpkg-deb >/dev/null || { echo 'make deb needs dpkg-deb' >&2; exit 4; }
	rm -rf $(DEB_STAGE)
	@$(QUIET_MAKE) install DESTDIR=$(DEB_STAGE) PREFIX=/usr
	@packages/deb_control.sh $(DEB_STAGE) $(LIBRARY_VERSION) \
	    $(DEB_ARCHITECTURE)
	dpkg-deb --root-owner-group --build $(DEB_STAGE) $(DEB)

# A Python wheel that carries the binary, its data and its CPU plug-ins with the libraries that they
# need: `pip install` puts them into bin/, share/ and lib/ of the environment. Needs python3, no
# network.
WHEEL_STAGE = $(BUILD)/wheel
wheel: all
	@command -v python3 >/dev/null || { echo 'make wheel needs python3' >&2; exit 4; }
	rm -rf $(WHEEL_STAGE)
	@$(QUIET_MAKE) install DESTDIR=$(WHEEL_STAGE)/stage PREFIX=$(PREFIX)
	mv $(WHEEL_STAGE)/stage$(PREFIX) $(WHEEL_STAGE)/tree
	$(CC) -s -Wl,--disable-new-dtags -Wl,-rpath,'$$ORIGIN/../lib/meshwright/libraries' \
	    -o $(WHEEL_STAGE)/tree/bin/meshwright $(OBJECTS) $(LIBRARIES)
	python3 packages/wheel.py $(WHEEL_STAGE)/tree $(LIBRARY_VERSION) $(BUILD)
	@packages/wheel_try.sh $(BUILD)/meshwright-$(LIBRARY_VERSION)-*.whl $(WHEEL_STAGE)/try

# What install put there, and of the folders those that are empty then.
uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/meshwright $(addprefix $(LIBRARY)/,$(notdir $(PLUGINS))) \
	    $(LIBRARY_LINK) $(LIBRARY_LINK).0 $(LIBRARY_HEADER) $(LIBRARY_PC) \
	    $(addprefix $(SHARE)/man/man1/,$(notdir $(MAN_PAGES))) \
	    $(COMPLETE_BASH) $(COMPLETE_ZSH) $(INSTALLED_MODULE) $(INSTALLED_RUNS)
	@rm -f $(addprefix $(SHARE)/meshwright/,$(DATA))
	@for folder in $(LIBRARY) $(SHARE)/meshwright $(SHARE)/man $(SHARE)/zsh \
	    $(SHARE)/bash-completion; do \
	    [ ! -d $$folder ] || find $$folder -depth -type d -empty -delete; done

clean:
	rm -rf $(BUILD)

FORCE:

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
