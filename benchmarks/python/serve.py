"""The loop of a peer: one JSON request a line from standard input, one JSON line on standard output for each.

It is put in front of the peer's own program. A failed request is answered with {"error": ...} and leaves the process
ready for the next.
"""

import json
import os
import sys


def serve(operations, undo=lambda: None):
    """Answers requests by the operation that they name; `undo` runs after one that failed."""
    # Whatever a library prints goes to standard error, so that it cannot break into an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            answer = operations[request["op"]](request)
        except Exception as error:  # the peer reports every failure to the parent
            undo()
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=answers, flush=True)
