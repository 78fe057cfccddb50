"""The Grafana dashboard of the fleet as code: panels.py says what it shows, build.py makes Grafana's JSON of it."""
