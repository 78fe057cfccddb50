# What people type. Each target sets up what it needs (Debian or Ubuntu; demo and molecule need root).
export PATH := $(CURDIR)/.venv/bin:$(PATH)

.PHONY: help setup demo demo-down test lint unit units rules molecule bench-proxy soak-proxy

help: ## Show the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 16

setup: ## Make .venv with everything the controller needs
	@tools/setup

demo: setup ## Deploy a fleet onto a local test host and talk to it (about 4 minutes the first time, 1 after that)
	@tools/demo

demo-down: ## Remove the demo's host
	@tools/test_host/host down demo

test: setup ## Everything that CI runs (about 25 minutes)
	@PYTHONPATH=tools python -m test_runner lint unit units rules molecule

lint unit units rules molecule: setup ## One tier of the tests
	@PYTHONPATH=tools python -m test_runner $@

bench-proxy: setup ## What the proxy costs beside nginx and the Rust routers (root; 15 minutes; needs nginx-light and wrk)
	@tools/test_host/host install
	@PYTHONPATH=tools python -m bench.proxy_overhead

soak-proxy: setup ## 2,000 requests through the proxy while replicas are killed (about a minute)
	@PYTHONPATH=tools python -m bench.proxy_soak

.PHONY: calibration bench-routing bench-real

calibration: setup ## What was measured on the cards, beside what the engine simulator makes of it (a second)
	@PYTHONPATH=tools python -m engine_simulator.calibration

bench-routing: setup ## The routing policies on simulated cards behind the real proxy (about 7 minutes)
	@pip install --quiet --disable-pip-version-check -r requirements-bench.txt
	@PYTHONPATH=tools:roles/routing_proxy/files python -m bench.routing --json .cache/bench/routing.json
	@PYTHONPATH=tools:roles/routing_proxy/files python -m bench.routing.pictures .cache/bench/routing.json .cache/bench

bench-real: setup ## The same on two real vLLM CPU engines (2 to 4 minutes, and 2 to 5 to install 2.5 GB)
	@tools/bench/real/install $(HOME)/.cache/frank-fleet/real-vllm-venv
	@PYTHONPATH=tools:roles/routing_proxy/files python -m bench.real --json .cache/bench/real.json
