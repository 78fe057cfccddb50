"""The dashboard's queries on a real Prometheus with simulated traffic: for its picture and for its tests."""
