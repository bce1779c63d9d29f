"""Options of the whole test suite."""

import pytest
from hypothesis import settings

settings.register_profile("viewlet", deadline=None)  # a slow machine is no reason to fail
settings.load_profile("viewlet")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="rewrite the expected parts of golden files from today's output"
    )


@pytest.fixture
def update(request: pytest.FixtureRequest) -> bool:
    return bool(request.config.getoption("--update"))
