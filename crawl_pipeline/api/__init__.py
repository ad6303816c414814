"""The HTTP API: orders, status and explanations for programs and for people away from the command line.

`serving` listens, `guarding` decides who may come in, `routes` says what there is, `watching` is the live status
page. Each route calls the function that the command of the same name calls; nothing is decided here that the command
line would not.
"""
