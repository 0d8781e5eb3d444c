"""A thread that watches something while a load runs."""

import threading


class Watch:
    """Context manager: runs `watch` in a thread, which returns once `ended` is set."""

    def __enter__(self):
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self.watch)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self._thread.join()
