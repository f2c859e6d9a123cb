"""``python -m tests.celery_program -A APP worker …``: Celery's own program, ending with whoever started it."""

from celery.__main__ import main

from ekiden.shared.processes.children import watch_parent

if __name__ == "__main__":
    watch_parent()
    main()
