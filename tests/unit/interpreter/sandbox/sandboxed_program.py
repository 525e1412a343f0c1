"""A program for the sandbox: runs the code that it receives, and answers with the code's `value`. The sandbox contains
no other file of the tests."""

from clicket.interpreter.sandbox import frames


def main(commands, answers, settings, layers):
    frames.write(answers, {"type": "ready", "layers": layers})
    space = {"settings": settings}
    while (order := frames.read(commands)) is not None:
        space["value"] = None
        error = None
        try:
            exec(compile(order["code"], "<test>", "exec"), space)
        except BaseException as raised:  # KeyboardInterrupt, too
            error = f"{type(raised).__name__}: {raised}"
        frames.write(answers, {"value": space["value"], "error": error})
