"""Tells the guard of ids: of new ones before the commit, of deleted ones after it. Standard library only."""

import http.client
import json
import urllib.parse


class NotInserted(Exception):
    """The guard did not say that it has the ids, though it may have them. The transaction must not commit."""


class Guard:
    """The service's internal address, as `http://10.0.0.1:9000`."""

    def __init__(self, url, timeout=3.0):
        self._address = urllib.parse.urlsplit(url).netloc
        # Longer than an insert waits for Redis, so that its error arrives.
        self._timeout = timeout

    def insert(self, *ids):
        """Call it inside of the transaction, and let the exception roll that back. Twice is harmless."""
        try:
            status, text = self._send("POST", "/ids", json.dumps(ids))
        except (OSError, http.client.HTTPException) as error:
            raise NotInserted(repr(error)) from error
        if status != 204:
            raise NotInserted(f"{status}: {text}")

    def remove(self, id):
        """Call it once, right after the commit, and never later: the id might be in use again by then.

        Returns whether the guard was told. If not, requests for the id reach the database until the next rebuild.
        """
        try:
            return self._send("DELETE", f"/ids/{id}")[0] == 204
        except (OSError, http.client.HTTPException):
            return False

    def _send(self, method, path, body=None):
        connection = http.client.HTTPConnection(self._address, timeout=self._timeout)
        try:
            connection.request(method, path, body, {"content-type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()
