#include "models/hub.h"

#include "core/file.h"

#include <assert.h>
#include <string.h>
#include <strings.h>

// Ids of the hub whose config.json has the sizes of the shipped file; fine-tuned ones have those of
// what they were tuned from.
static const struct {
    const char *id, *shipped;
} MODELS[] = {
    {"ByteDance-Seed/Seed-OSS-36B-Base", "seed-oss-36b"},
    {"CohereLabs/c4ai-command-r-v01", "command-r-35b"},
    {"CohereLabs/c4ai-command-r7b-12-2024", "command-r7b"},
    {"EleutherAI/gpt-j-6b", "gpt-j-6b"},
    {"EleutherAI/gpt-neo-2.7B", "gpt-neo-2.7b"},
    {"FacebookAI/roberta-base", "roberta-base"},
    {"FacebookAI/roberta-large", "roberta-large"},
    {"FacebookAI/xlm-roberta-large", "xlm-roberta-large"},
    {"LGAI-EXAONE/EXAONE-4.0-32B", "exaone-4.0-32b"},
    {"LiquidAI/LFM2-1.2B", "lfm2-1.2b"},
    {"LiquidAI/LFM2-8B-A1B", "lfm2-8b-a1b"},
    {"MiniMaxAI/MiniMax-M2", "minimax-m2"},
    {"answerdotai/ModernBERT-base", "modernbert-base"},
    {"answerdotai/ModernBERT-large", "modernbert-large"},
    {"allenai/OLMo-2-0325-32B", "olmo-2-32b"},
    {"allenai/OLMo-2-1124-13B", "olmo-2-13b"},
    {"allenai/OLMo-2-1124-7B", "olmo-2-7b"},
    {"allenai/OLMoE-1B-7B-0924", "olmoe-1b-7b"},
    {"baidu/ERNIE-4.5-21B-A3B-PT", "ernie-4.5-21b-a3b"},
    {"baidu/ERNIE-4.5-300B-A47B-PT", "ernie-4.5-300b-a47b"},
    {"bigcode/starcoder", "starcoder"},
    {"almanach/camembert-base", "camembert-base"},
    {"facebook/bart-large", "bart-large"},
    {"facebook/dinov2-giant-imagenet1k-1-layer", "dinov2-giant"},
    {"facebook/dinov2-large-imagenet1k-1-layer", "dinov2-large"},
    {"facebook/esm2_t33_650M_UR50D", "esm2-650m"},
    {"facebook/esm2_t48_15B_UR50D", "esm2-15b"},
    {"facebook/mbart-large-cc25", "mbart-large-cc25"},
    {"google/mt5-xxl", "mt5-xxl"},
    {"google/switch-base-128", "switch-base-128"},
    {"google/switch-base-8", "switch-base-8"},
    {"google/t5-v1_1-xxl", "t5-v1_1-xxl"},
    {"google/vit-large-patch16-224", "vit-large-patch16-224"},
    {"google/siglip-so400m-patch14-384", "siglip-so400m-patch14-384"},
    {"openai/clip-vit-large-patch14", "clip-vit-large-patch14"},
    {"google-t5/t5-base", "t5-base"},
    {"openai/whisper-large-v3", "whisper-large-v3"},
    {"distilbert/distilbert-base-uncased", "distilbert-base"},
    {"google-bert/bert-base-uncased", "bert-base"},
    {"openai-community/openai-gpt", "openai-gpt"},
    {"openbmb/MiniCPM3-4B", "minicpm3-4b"},
    {"stable-diffusion-v1-5/stable-diffusion-v1-5", "stable-diffusion-v1-5"},
    {"stabilityai/stable-diffusion-xl-base-1.0", "stable-diffusion-xl"},
    {"stabilityai/stablelm-3b-4e1t", "stablelm-3b-4e1t"},
    {"zai-org/GLM-4.7-Flash", "glm-4.7-flash"},
    {"zai-org/GLM-5", "glm-5"},
    {"bert-base-uncased", "bert-base"},
    {"bigscience/bloom", "bloom-176b"},
    {"bigscience/bloom-560m", "bloom-560m"},
    {"bigscience/bloomz", "bloom-176b"},
    {"bigscience/bloomz-560m", "bloom-560m"},
    {"black-forest-labs/FLUX.1-dev", "flux.1-dev"},
    {"databricks/dbrx-base", "dbrx"},
    {"databricks/dbrx-instruct", "dbrx"},
    {"deepseek-ai/DeepSeek-R1", "deepseek-r1"},
    {"deepseek-ai/DeepSeek-R1-0528", "deepseek-r1"},
    {"deepseek-ai/DeepSeek-V2", "deepseek-v2"},
    {"deepseek-ai/DeepSeek-V2-Chat", "deepseek-v2"},
    {"deepseek-ai/DeepSeek-V2-Lite", "deepseek-v2-lite"},
    {"deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"},
    {"deepseek-ai/DeepSeek-V3", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-V3-0324", "deepseek-v3"},
    {"baichuan-inc/Baichuan2-13B-Base", "baichuan2-13b"},
    {"baichuan-inc/Baichuan2-7B-Base", "baichuan2-7b"},
    {"deepseek-ai/DeepSeek-V3-Base", "deepseek-v3"},
    {"deepseek-ai/DeepSeek-V3.2", "deepseek-v3.2"},
    {"deepseek-ai/DeepSeek-V3.2-Exp", "deepseek-v3.2"},
    {"ibm-granite/granite-3.0-2b-base", "granite-3.0-2b"},
    {"ibm-granite/granite-3.0-3b-a800m-base", "granite-3.0-3b-a800m"},
    {"ibm-granite/granite-3.0-8b-base", "granite-3.0-8b"},
    {"ibm-granite/granite-4.0-h-tiny-base", "granite-4.0-h-tiny"},
    {"ibm-ai-platform/Bamba-9B-v1", "bamba-9b"},
    {"internlm/internlm2-7b", "internlm2-7b"},
    {"sentence-transformers/all-mpnet-base-v2", "mpnet-base"},
    {"microsoft/mpnet-base", "mpnet-base"},
    {"google/electra-base-generator", "electra-base-generator"},
    {"albert/albert-xxlarge-v2", "albert-xxlarge-v2"},
    {"nomic-ai/nomic-embed-text-v1.5", "nomic-embed-text-v1.5"},
    {"Helsinki-NLP/opus-mt-en-de", "opus-mt-en-de"},
    {"google/pegasus-large", "pegasus-large"},
    {"facebook/nllb-200-3.3B", "nllb-200-3.3b"},
    {"facebook/blenderbot-3B", "blenderbot-3b"},
    {"facebook/xglm-7.5B", "xglm-7.5b"},
    {"tencent/Hy3-preview", "hy3"},
    {"internlm/internlm3-8b-instruct", "internlm3-8b"},
    {"sarvamai/sarvam-30b", "sarvam-30b"},
    {"microsoft/deberta-base", "deberta-base"},
    {"microsoft/deberta-v3-base", "deberta-v3-base"},
    {"microsoft/deberta-v3-large", "deberta-v3-large"},
    {"microsoft/phi-1_5", "phi-1.5"},
    {"mistralai/Mamba-Codestral-7B-v0.1", "mamba-codestral-7b"},
    {"nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"},
    {"nvidia/Nemotron-H-8B-Base-8K", "nemotron-h-8b"},
    {"state-spaces/mamba2-2.7b", "mamba2-2.7b"},
    {"state-spaces/mamba-2.8b-hf", "mamba-2.8b"},
    {"tiiuae/falcon-mamba-7b", "falcon-mamba-7b"},
    {"ai21labs/Jamba-v0.1", "jamba-v0.1"},
    {"microsoft/phi-2", "phi-2"},
    {"microsoft/bitnet-b1.58-2B-4T-bf16", "bitnet-b1.58-2b"},
    {"XiaomiMiMo/MiMo-V2-Flash", "mimo-v2-flash"},
    {"swiss-ai/Apertus-8B-2509", "apertus-8b"},
    {"swiss-ai/Apertus-8B-Instruct-2509", "apertus-8b"},
    {"microsoft/Phi-3.5-MoE-instruct", "phi-3.5-moe"},
    {"adept/persimmon-8b-base", "persimmon-8b"},
    {"adept/persimmon-8b-chat", "persimmon-8b"},
    {"mosaicml/mpt-30b", "mpt-30b"},
    {"mosaicml/mpt-7b", "mpt-7b"},
    {"tencent/Hunyuan-A13B-Instruct", "hunyuan-a13b"},
    {"tiiuae/Falcon-H1-0.5B-Base", "falcon-h1-0.5b"},
    {"tiiuae/falcon-40b", "falcon-40b"},
    {"tiiuae/falcon-40b-instruct", "falcon-40b"},
    {"tiiuae/falcon-7b", "falcon-7b"},
    {"tiiuae/falcon-7b-instruct", "falcon-7b"},
    {"google/gemma-2b", "gemma-2b"},
    {"google/gemma-2b-it", "gemma-2b"},
    {"google/gemma-7b", "gemma-7b"},
    {"google/gemma-7b-it", "gemma-7b"},
    {"google/gemma-2-27b", "gemma-2-27b"},
    {"google/gemma-2-27b-it", "gemma-2-27b"},
    {"google/gemma-2-9b", "gemma-2-9b"},
    {"google/gemma-2-9b-it", "gemma-2-9b"},
    {"google/gemma-3-1b-it", "gemma-3-1b"},
    {"google/gemma-3-1b-pt", "gemma-3-1b"},
    {"google/gemma-3-12b-it", "gemma-3-12b"},
    {"google/gemma-3-12b-pt", "gemma-3-12b"},
    {"google/gemma-3-27b-it", "gemma-3-27b"},
    {"google/gemma-3-27b-pt", "gemma-3-27b"},
    {"google/gemma-3-4b-it", "gemma-3-4b"},
    {"google/gemma-3-4b-pt", "gemma-3-4b"},
    {"google/gemma-3n-E4B", "gemma-3n-e4b"},
    {"google/gemma-3n-E4B-it", "gemma-3n-e4b"},
    {"google/paligemma-3b-pt-224", "paligemma-3b-pt-224"},
    {"zai-org/GLM-4-32B-0414", "glm-4-32b"},
    {"zai-org/GLM-4.5", "glm-4.5"},
    {"zai-org/GLM-4.5-Air", "glm-4.5-air"},
    {"zai-org/GLM-4.5-Air-Base", "glm-4.5-air"},
    {"zai-org/GLM-4.5-Base", "glm-4.5"},
    {"EleutherAI/gpt-neox-20b", "gpt-neox-20b"},
    {"EleutherAI/pythia-1.4b", "pythia-1.4b"},
    {"openai/gpt-oss-120b", "gpt-oss-120b"},
    {"openai/gpt-oss-20b", "gpt-oss-20b"},
    {"openai-community/gpt2", "gpt2"},
    {"openai-community/gpt2-large", "gpt2-large"},
    {"openai-community/gpt2-medium", "gpt2-medium"},
    {"openai-community/gpt2-xl", "gpt2-xl"},
    {"hpcai-tech/grok-1", "grok-1"},
    {"keyfan/grok-1-hf", "grok-1"},
    {"xai-org/grok-1", "grok-1"},
    {"moonshotai/Kimi-K2-Base", "kimi-k2"},
    {"moonshotai/Kimi-K2-Instruct", "kimi-k2"},
    {"huggyllama/llama-13b", "llama-13b"},
    {"huggyllama/llama-65b", "llama-65b"},
    {"huggyllama/llama-7b", "llama-7b"},
    {"meta-llama/Llama-2-13b-chat-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-13b-hf", "llama-2-13b"},
    {"meta-llama/Llama-2-70b-chat-hf", "llama-2-70b"},
    {"meta-llama/Llama-2-70b-hf", "llama-2-70b"},
    {"meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"},
    {"meta-llama/Llama-2-7b-hf", "llama-2-7b"},
    {"meta-llama/Llama-3.1-405B", "llama-3.1-405b"},
    {"meta-llama/Llama-3.1-405B-Instruct", "llama-3.1-405b"},
    {"meta-llama/Llama-3.1-70B", "llama-3.1-70b"},
    {"meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"meta-llama/Llama-3.3-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3-70B", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-70B-Instruct", "llama-3-70b"},
    {"meta-llama/Meta-Llama-3-8B", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3-8B-Instruct", "llama-3-8b"},
    {"meta-llama/Meta-Llama-3.1-405B", "llama-3.1-405b"},
    {"meta-llama/Meta-Llama-3.1-405B-Instruct", "llama-3.1-405b"},
    {"meta-llama/Meta-Llama-3.1-70B", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3.1-70B-Instruct", "llama-3.1-70b"},
    {"meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b"},
    {"meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"},
    {"mistralai/Mistral-7B-Instruct-v0.1", "mistral-7b"},
    {"mistralai/Mistral-7B-v0.1", "mistral-7b"},
    {"mistralai/Mixtral-8x22B-Instruct-v0.1", "mixtral-8x22b"},
    {"mistralai/Mixtral-8x22B-v0.1", "mixtral-8x22b"},
    {"mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"},
    {"mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b"},
    {"facebook/opt-1.3b", "opt-1.3b"},
    {"microsoft/Phi-3-medium-4k-instruct", "phi-3-medium"},
    {"microsoft/Phi-3-mini-4k-instruct", "phi-3-mini"},
    {"Qwen/Qwen1.5-MoE-A2.7B", "qwen1.5-moe-a2.7b"},
    {"Qwen/Qwen1.5-MoE-A2.7B-Chat", "qwen1.5-moe-a2.7b"},
    {"Qwen/Qwen2-57B-A14B", "qwen2-57b-a14b"},
    {"Qwen/Qwen2.5-14B", "qwen2.5-14b"},
    {"Qwen/Qwen2.5-32B", "qwen2.5-32b"},
    {"Qwen/Qwen2.5-72B", "qwen2.5-72b"},
    {"Qwen/Qwen2.5-7B", "qwen2.5-7b"},
    {"facebook/cwm", "cwm-32b"},
    {"rednote-hilab/dots.llm1.base", "dots.llm1-142b"},
    {"rednote-hilab/dots.llm1.inst", "dots.llm1-142b"},
    {"upstage/Solar-Open-100B", "solar-open-100b"},
    {"moonshotai/Kimi-Linear-48B-A3B-Base", "kimi-linear-48b-a3b"},
    {"moonshotai/Kimi-Linear-48B-A3B-Instruct", "kimi-linear-48b-a3b"},
    {"Qwen/Qwen3-Next-80B-A3B-Instruct", "qwen3-next-80b-a3b"},
    {"Qwen/Qwen3-Next-80B-A3B-Thinking", "qwen3-next-80b-a3b"},
    {"Qwen/Qwen3-Coder-Next", "qwen3-next-80b-a3b"},
    {"Qwen/Qwen3.5-35B-A3B", "qwen3.5-35b-a3b"},
    {"Qwen/Qwen3.5-9B", "qwen3.5-9b"},
    {"Qwen/Qwen3-14B", "qwen3-14b"},
    {"Qwen/Qwen3-235B-A22B", "qwen3-235b-a22b"},
    {"Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"},
    {"Qwen/Qwen3-32B", "qwen3-32b"},
    {"Qwen/Qwen3-8B", "qwen3-8b"},
    {"bigcode/starcoder2-15b", "starcoder2-15b"},
    {"zai-org/glm-4-9b-chat-hf", "glm-4-9b"},
};

// The shipped name of an id with its organisation, or of its last part alone; NULL when there is
// none.
static const char *find_id(const char *name)
{
    bool is_whole = strchr(name, '/') != NULL;
    for (size_t i = 0; i < sizeof MODELS / sizeof *MODELS; i++) {
        const char *id = MODELS[i].id, *slash = strrchr(id, '/');
        if (!is_whole && slash) id = slash + 1;
        if (strcasecmp(id, name) == 0) return MODELS[i].shipped;
    }
    return NULL;
}

// A shipped name in other case.
static const char *find_shipped(struct arena *arena, const char *name)
{
    int count = 0;
    const char **names = file_list_data(arena, "models/zoo", &count);
    for (int i = 0; i < count; i++) {
        if (strcasecmp(names[i], name) == 0) return names[i];
    }
    return NULL;
}

// ORG/NAME, as the hub has it: one slash, and neither a folder of this machine nor a file's name.
static bool is_id(const char *name)
{
    static const char JSON[] = ".json";
    static const char LETTERS[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                  "-_./";
    const char *slash = strchr(name, '/');
    size_t length = strlen(name);
    bool is_file = length >= strlen(JSON) && strcmp(name + length - strlen(JSON), JSON) == 0;
    if (!slash || slash == name || strchr(slash + 1, '/') || !slash[1]) return false;
    return *name != '.' && *name != '~' && !is_file && strspn(name, LETTERS) == length;
}

const char *hub_model(struct arena *arena, const char *name, struct err *err)
{
    if (err->kind) return NULL;
    const char *inside = arena_print(arena, "%s/config.json", name);
    bool may_be_shipped = !strchr(name, '/');
    if (!may_be_shipped && file_exists(name)) return file_exists(inside) ? inside : name;
    const char *shipped = may_be_shipped ? find_shipped(arena, name) : NULL;
    if (!shipped) shipped = find_id(name);
    assert((!shipped || !strchr(shipped, '/')) && "a shipped name is looked up, not opened");
    if (shipped) return shipped;
    if (may_be_shipped && file_exists(inside)) return inside;
    if (may_be_shipped || !is_id(name)) return name;
    err_set(err, ERR_INPUT,
            "%s: there is no such file, and the model of that name on the Hugging Face hub is not "
            "shipped: download config.json from its page (https://huggingface.co/%s) and give its "
            "path",
            name, name);
    return NULL;
}
