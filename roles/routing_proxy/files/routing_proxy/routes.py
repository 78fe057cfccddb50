"""What a path is: an endpoint with its API's forms, a route of the proxy's own, or one that is refused."""

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from urllib.parse import unquote_to_bytes

# The label of requests whose path is not in this list is "other", so that no client can grow the metrics.
_ENDPOINTS = {
    b"/v1/chat/completions": "chat",
    b"/v1/completions": "completions",
    b"/v1/messages": "messages",
    b"/v1/messages/count_tokens": "count_tokens",
    b"/v1/responses": "responses",
    b"/v1/embeddings": "embeddings",
    b"/v1/models": "models",
    b"/tokenize": "tokenize",
    b"/detokenize": "tokenize",
}
# Routes that vLLM opens to developers (VLLM_SERVER_DEV_MODE) or profilers: they stop, empty or rewrite an engine.
_DEVELOPER_ROUTES = frozenset(
    b"/server_info /reset_prefix_cache /reset_mm_cache /reset_encoder_cache /sleep /wake_up /is_sleeping /pause /resume"
    b" /is_paused /collective_rpc /update_weights /init_weight_transfer_engine /get_world_size /abort_requests"
    b" /scale_elastic_ep /is_scaling_elastic_ep /start_profile /stop_profile".split()
)


class Api(Enum):
    """Whose error forms a client of an endpoint expects."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"
    RESPONSES = "responses"


@dataclass(frozen=True, slots=True)
class Route:
    """What a path is; `endpoint` is its bounded label."""

    endpoint: str
    api: Api
    refused: bool = False


# Few, as a client may send paths of 256 kB.
@lru_cache(maxsize=64)
def route(path: bytes) -> Route:
    """Return what a path (without its query) is."""
    plain = _plain(path)
    if any(plain == refused or plain.startswith(refused + b"/") for refused in _DEVELOPER_ROUTES):
        return Route("developer", Api.OPENAI, refused=True)
    endpoint = _ENDPOINTS.get(path, "other")
    api = Api.OPENAI
    if path.startswith(b"/v1/messages"):
        api = Api.ANTHROPIC
    elif path.startswith(b"/v1/responses"):
        api = Api.RESPONSES
        endpoint = "responses"
    return Route(endpoint, api)


def _plain(path: bytes) -> bytes:
    """Return the one spelling of all spellings of a path that some server might take for the same."""
    for _ in range(4):
        decoded = unquote_to_bytes(path)
        if decoded == path:
            break
        path = decoded
    parts: list[bytes] = []
    for part in path.replace(b"\\", b"/").split(b"/"):
        name = part.partition(b";")[0].partition(b"?")[0].partition(b"#")[0].strip().lower()
        if name == b"..":
            del parts[-1:]
        elif name not in (b"", b"."):
            parts.append(name)
    return b"/" + b"/".join(parts)
