#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Parameter names and shapes of four models, in forward order, from the architectures' published hyper-parameters.

  generate.py            writes MODEL.json beside this file
  generate.py --check    ends with 1 when a file differs or a total is not the published one

The sum of a model's sizes must equal the published parameter count, which pins the shapes. Sources:
  resnet50    torchvision's ResNet-50 (He et al. 2015, v1.5), 25,557,032 parameters
  bert_large  BertModel, bert-large-uncased with pooler (Devlin et al. 2018), 335,141,888
  gpt2_xl     GPT-2 XL with tied embeddings (Radford et al. 2019), 1,557,611,200
  llama3_8b   Llama 3 8B (2024), 8,030,261,248
"""
import json
import math
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def batch_norm(name, channels):
    return [(f"{name}.weight", [channels]), (f"{name}.bias", [channels])]


def linear(name, inputs, outputs, bias=True):
    return [(f"{name}.weight", [outputs, inputs])] + ([(f"{name}.bias", [outputs])] if bias else [])


def resnet50():
    parameters = [("conv1.weight", [64, 3, 7, 7])] + batch_norm("bn1", 64)
    inputs = 64
    for stage, (blocks, width) in enumerate([(3, 64), (4, 128), (6, 256), (3, 512)], 1):
        for block in range(blocks):
            name = f"layer{stage}.{block}"
            for conv, (out, into, kernel) in enumerate([(width, inputs, 1), (width, width, 3), (4 * width, width, 1)], 1):
                parameters.append((f"{name}.conv{conv}.weight", [out, into, kernel, kernel]))
                parameters += batch_norm(f"{name}.bn{conv}", out)
            if block == 0:
                parameters.append((f"{name}.downsample.0.weight", [4 * width, inputs, 1, 1]))
                parameters += batch_norm(f"{name}.downsample.1", 4 * width)
            inputs = 4 * width
    return parameters + linear("fc", 2048, 1000)


def bert_large(hidden=1024, layers=24, inner=4096, vocabulary=30522, positions=512, types=2):
    def norm(name):
        return [(f"{name}.weight", [hidden]), (f"{name}.bias", [hidden])]

    parameters = [("embeddings.word_embeddings.weight", [vocabulary, hidden]),
                  ("embeddings.position_embeddings.weight", [positions, hidden]),
                  ("embeddings.token_type_embeddings.weight", [types, hidden])] + norm("embeddings.LayerNorm")
    for layer in range(layers):
        name = f"encoder.layer.{layer}"
        for part in ("query", "key", "value"):
            parameters += linear(f"{name}.attention.self.{part}", hidden, hidden)
        parameters += linear(f"{name}.attention.output.dense", hidden, hidden) + norm(f"{name}.attention.output.LayerNorm")
        parameters += linear(f"{name}.intermediate.dense", hidden, inner)
        parameters += linear(f"{name}.output.dense", inner, hidden) + norm(f"{name}.output.LayerNorm")
    return parameters + linear("pooler.dense", hidden, hidden)


def gpt2_xl(hidden=1600, layers=48, vocabulary=50257, positions=1024):
    def norm(name):
        return [(f"{name}.weight", [hidden]), (f"{name}.bias", [hidden])]

    def conv1d(name, inputs, outputs):  # GPT-2 keeps its matrices the other way round
        return [(f"{name}.weight", [inputs, outputs]), (f"{name}.bias", [outputs])]

    parameters = [("wte.weight", [vocabulary, hidden]), ("wpe.weight", [positions, hidden])]
    for layer in range(layers):
        name = f"h.{layer}"
        parameters += norm(f"{name}.ln_1") + conv1d(f"{name}.attn.c_attn", hidden, 3 * hidden)
        parameters += conv1d(f"{name}.attn.c_proj", hidden, hidden) + norm(f"{name}.ln_2")
        parameters += conv1d(f"{name}.mlp.c_fc", hidden, 4 * hidden) + conv1d(f"{name}.mlp.c_proj", 4 * hidden, hidden)
    return parameters + norm("ln_f")


def llama3_8b(hidden=4096, layers=32, inner=14336, vocabulary=128256, heads=32, kv_heads=8):
    kv = hidden // heads * kv_heads
    parameters = [("model.embed_tokens.weight", [vocabulary, hidden])]
    for layer in range(layers):
        name = f"model.layers.{layer}"
        for part, outputs in (("q_proj", hidden), ("k_proj", kv), ("v_proj", kv), ("o_proj", hidden)):
            parameters += linear(f"{name}.self_attn.{part}", hidden, outputs, bias=False)
        for part, inputs, outputs in (("gate_proj", hidden, inner), ("up_proj", hidden, inner), ("down_proj", inner, hidden)):
            parameters += linear(f"{name}.mlp.{part}", inputs, outputs, bias=False)
        parameters += [(f"{name}.input_layernorm.weight", [hidden]), (f"{name}.post_attention_layernorm.weight", [hidden])]
    return parameters + [("model.norm.weight", [hidden]), ("lm_head.weight", [vocabulary, hidden])]


MODELS = {  # name -> (parameters, published count)
    "resnet50": (resnet50, 25_557_032),
    "bert_large": (bert_large, 335_141_888),
    "gpt2_xl": (gpt2_xl, 1_557_611_200),
    "llama3_8b": (llama3_8b, 8_030_261_248),
}


def render(name, parameters):
    total = sum(math.prod(shape) for _, shape in parameters)
    rows = ",\n".join("    " + json.dumps([parameter, shape]) for parameter, shape in parameters)
    return f'{{\n  "name": {json.dumps(name)},\n  "total": {total},\n  "parameters": [\n{rows}\n  ]\n}}\n'


def main():
    problems = []
    for name, (model, published) in MODELS.items():
        parameters = model()
        total = sum(math.prod(shape) for _, shape in parameters)
        if total != published:
            problems.append(f"{name}: {total:,} parameters, published are {published:,}")
        if len({parameter for parameter, _ in parameters}) != len(parameters):
            problems.append(f"{name}: a parameter twice")
        path = HERE / f"{name}.json"
        text = render(name, parameters)
        if "--check" not in sys.argv[1:]:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            problems.append(f"{path}: not what generate.py writes; run it again")
    print("\n".join(problems) or f"workloads: {len(MODELS)} models with the published parameter counts")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
