"""The HTTP server: routes, and what vLLM's server does around each of them."""

import time

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from .api_chat import chat_completions
from .api_completions import completions
from .api_messages import count_tokens, messages
from .api_plain import (
    detokenize,
    get_faults,
    health,
    kv_event_sources,
    load,
    metrics,
    models,
    models_slash,
    set_faults,
    tokenize,
    version,
)
from .api_responses import cancel_response, create_response, get_response
from .errors import ApiError, engine_dead, json_response
from .runner import EngineDead
from .state import STATE, State
from .web_metrics import WebMetrics

_LARGEST_BODY = 2**30


def build_app(state: State) -> web.Application:
    """The application of one server."""
    app = web.Application(middlewares=[_measure(state), _guard, _translate_errors], client_max_size=_LARGEST_BODY)
    app[STATE] = state
    app.on_response_prepare.append(_set_headers)
    for path, handler in {
        "/health": health,
        "/ping": health,
        "/version": version,
        "/load": load,
        "/kv_event_sources": kv_event_sources,
        "/v1/models": models,
        "/v1/models/": models_slash,
        "/v1/responses/{id}": get_response,
    }.items():
        app.router.add_get(path, handler, allow_head=False)
    app.router.add_get("/metrics", metrics)
    for path, handler in {
        "/ping": health,
        "/tokenize": tokenize,
        "/detokenize": detokenize,
        "/v1/chat/completions": chat_completions,
        "/v1/completions": completions,
        "/v1/messages": messages,
        "/v1/messages/count_tokens": count_tokens,
        "/v1/responses": create_response,
        "/v1/responses/{id}/cancel": cancel_response,
    }.items():
        app.router.add_post(path, handler)
    if state.settings.fault_route:
        app.router.add_get("/sim/faults", get_faults)
        app.router.add_post("/sim/faults", set_faults)
    return app


async def _set_headers(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = "uvicorn"
    response.headers.setdefault("Vary", "Origin")


def _measure(state: State) -> Middleware:
    counts = WebMetrics(state.metrics.registry)

    @web.middleware
    async def middleware(request: web.Request, handler: Handler) -> web.StreamResponse:
        started = time.monotonic()
        response = await handler(request)
        counts.record(request, response, started)
        return response

    return middleware


@web.middleware
async def _guard(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what vLLM refuses before it looks at the route: foreign browser pages, missing keys."""
    if request.method == "OPTIONS" and {"Origin", "Access-Control-Request-Method"} <= request.headers.keys():
        return web.Response(
            status=400,
            text="Disallowed CORS origin",
            headers={
                "Vary": "Origin, Access-Control-Request-Method, Access-Control-Request-Headers, "
                "Access-Control-Request-Private-Network",
                "Access-Control-Allow-Methods": "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT, QUERY",
                "Access-Control-Max-Age": "600",
            },
        )
    keys = request.app[STATE].settings.api_keys
    if keys and request.path.startswith("/v1"):
        scheme, _, key = request.headers.get("Authorization", "").partition(" ")
        if scheme.lower() != "bearer" or key not in keys:
            return json_response({"error": "Unauthorized"}, 401)
    return await handler(request)


@web.middleware
async def _translate_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except ApiError as error:
        return error.response(request.path)
    except EngineDead:
        return engine_dead().response(request.path)
    except web.HTTPMethodNotAllowed as error:
        return json_response({"detail": "Method Not Allowed"}, 405, {"Allow": error.headers["Allow"]})
    except web.HTTPNotFound:
        return json_response({"detail": "Not Found"}, 404)
