"""Makes a language model that a CPU serves fast: a Llama of 4 M random parameters with a tokenizer of its own.

Run by the Python that has vLLM: `python model.py FOLDER`. What it says is noise; how it caches and schedules is vLLM's.
"""

import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

# Imported by name, because only vLLM's own environment has them and the checks of this project run without it.
torch: Any = import_module("torch")
tokenizers: Any = import_module("tokenizers")
transformers: Any = import_module("transformers")

CONTEXT = 32_768
VOCABULARY = 2048
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def make_tokenizer() -> Any:
    """Train a byte-level BPE on Python's own library: the prompts of the benches look like code."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    sources = sorted(map(str, Path(os.__file__).parent.glob("*.py")))[:150]
    tokenizer.train(sources, trainer)
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|im_end|>", pad_token="<|endoftext|>",
        model_max_length=CONTEXT, clean_up_tokenization_spaces=False,
    )  # fmt: skip
    wrapped.chat_template = CHAT_TEMPLATE
    return wrapped


def main(folder: str) -> None:
    """Write tokenizer and weights into `folder`."""
    tokenizer = make_tokenizer()
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=256, intermediate_size=512, num_hidden_layers=5, num_attention_heads=4,
        num_key_value_heads=2, head_dim=64, max_position_embeddings=CONTEXT, tie_word_embeddings=False,
        bos_token_id=tokenizer.bos_token_id, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).to(torch.bfloat16).save_pretrained(folder)


if __name__ == "__main__":
    main(sys.argv[1])
