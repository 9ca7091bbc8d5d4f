"""What the ADBC scripts share: connecting, and checks that say what they found."""

import adbc_driver_flightsql.dbapi as flightsql
import adbc_driver_manager


def connect(url):
    """A connection in autocommit mode."""
    return flightsql.connect(url, autocommit=True)


def check(condition, what):
    """Fails with a text when a condition does not hold."""
    if not condition:
        raise AssertionError(what)


def same(found, expected, what):
    """Fails when two values differ, showing both."""
    check(found == expected, f"{what}: found {found!r}, expected {expected!r}")


def fails(call, *parts):
    """Runs a call that must fail with an error whose text has all the given parts; gives the error."""
    try:
        call()
    except adbc_driver_manager.Error as error:
        for part in parts:
            check(part in str(error), f"the error lacks {part!r}: {error}")
        return error
    raise AssertionError(f"no error; expected one with {parts}")


def run(sections):
    """Runs functions in order, each under its name, and ends the process with the number of failures."""
    import sys
    import traceback

    failed = 0
    for section in sections:
        try:
            section()
            print(f"ok      {section.__name__}")
        except Exception:
            failed += 1
            print(f"FAILED  {section.__name__}")
            traceback.print_exc(file=sys.stdout)
    sys.exit(failed)
