"""The contract holds right after the deploy."""

import pytest
from contract import CONTRACT

testinfra_hosts = ["ansible://dankserver"]


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
def test_contract(host, check):
    check(host)
