"""The tests as jobs, run two at a time: `PYTHONPATH=tools python -m test_runner lint unit units rules molecule`."""
