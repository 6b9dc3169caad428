// Plans a model and asks what half the network would cost:
//   cc plan.c $(pkg-config --cflags --libs meshwright) -o plan && ./plan llama-3-8b dgx-h100
#include <meshwright.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char question[512];
    struct meshwright_figures figures = {.struct_bytes = sizeof figures};
    struct meshwright *plan = meshwright_new();
    snprintf(question, sizeof question,
             "{\"model\": \"%s\", \"cluster\": \"%s\", \"seq_len\": 1024, \"global_batch\": 64}",
             argc > 1 ? argv[1] : "gpt2", argc > 2 ? argv[2] : "dgx-h100");
    int status = meshwright_plan(plan, question);
    if (status == MESHWRIGHT_YES) status = meshwright_figures(plan, &figures);
    if (status == MESHWRIGHT_YES) {
        printf("%.1f ms a step (%.1f to %.1f), %.1f GB of %.1f on %lld GPUs\n", figures.step_s * 1e3,
               figures.step_s_low * 1e3, figures.step_s_high * 1e3,
               (double)figures.reserved_bytes / 1e9, (double)figures.device_bytes / 1e9,
               (long long)figures.gpu_count);
        status = meshwright_what_if(plan, "{\"network_ratio\": 0.5}");
    }
    if (status == MESHWRIGHT_YES) {
        // The answer is another plan.json.
        FILE *file = fopen("half.json", "w");
        if (file) fputs(meshwright_text(plan), file);
        if (file) fclose(file);
        status = meshwright_load(plan, "half.json");
    }
    if (status == MESHWRIGHT_YES) status = meshwright_figures(plan, &figures);
    if (status == MESHWRIGHT_YES)
        printf("%.1f ms with half the network\n", figures.step_s * 1e3);
    if (status != MESHWRIGHT_YES) fprintf(stderr, "%s\n", meshwright_error(plan));
    meshwright_free(plan);
    return status;
}
