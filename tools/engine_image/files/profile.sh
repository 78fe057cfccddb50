# A login shell finds the engine's Python, as in the real image.
PATH=/opt/vllm/bin:$PATH
