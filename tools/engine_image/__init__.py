"""The stand-in for the engine's image: same name, same way in, with the simulator where vLLM would be."""
