"""A program that writes users past the Rust service, and tells its guard. Run by `cargo run -p python_writer`.

It asserts what the guide says: of a user that is created, rolled back, told too late, deleted; and of failures.
"""

import http.client
import os
import socket
import sys
import threading
import time
import urllib.parse

import psycopg

from guard import Guard, NotInserted

# Seconds. Below the guard's `longest_transaction`, which counts from the insert to the end of the transaction.
LONGEST = 60


def connect():
    """PostgreSQL 17 has `transaction_timeout` for this; with an earlier one `create` looks at the clock, too."""
    limits = f"-c statement_timeout={LONGEST}s -c idle_in_transaction_session_timeout={LONGEST}s"
    return psycopg.connect(os.environ["DATABASE_URL"], options=limits, autocommit=True)


def create(db, guard, name):
    """Creates a user. The database draws the id, so the guard is told inside of the transaction."""
    with db.transaction():
        (id,) = db.execute("INSERT INTO python_users (name) VALUES (%s) RETURNING id", [name]).fetchone()
        told = time.monotonic()
        guard.insert(id)  # An exception leaves here, and rolls back.
        if time.monotonic() - told > LONGEST:
            raise TimeoutError("too late to commit")
    return id


def delete(db, guard, id):
    """Deletes a user; returns whether the guard was told, which no caller needs to know."""
    with db.transaction():
        db.execute("DELETE FROM python_users WHERE id = %s", [id])
    return guard.remove(id)


def import_many(db, guard, count):
    """Creates many users with one call to the guard."""
    with db.transaction():
        rows = db.execute(
            "INSERT INTO python_users (name) SELECT 'import' FROM generate_series(1, %s) RETURNING id", [count]
        ).fetchall()
        guard.insert(*(id for (id,) in rows))
    return [id for (id,) in rows]


# From here on: what becomes of it.


def get(id):
    """What a client of the service sees."""
    connection = http.client.HTTPConnection(urllib.parse.urlsplit(os.environ["SERVICE_URL"]).netloc, timeout=10)
    try:
        connection.request("GET", f"/users/{id}")
        return connection.getresponse().status
    finally:
        connection.close()


def named(db, name):
    return db.execute("SELECT count(*) FROM python_users WHERE name = %s", [name]).fetchone()[0]


def is_not_created(db, guard, name):
    try:
        create(db, guard, name)
    except NotInserted as error:
        print(f"{name}: not created: {error}")
    else:
        raise AssertionError(f"{name} was created, and the guard had not said yes")
    assert named(db, name) == 0


def silent_guard():
    """Takes a request and closes the connection: the insert may be done, but nobody says so."""
    listener = socket.create_server(("127.0.0.1", 0))

    def hang_up():
        connection, _ = listener.accept()
        connection.recv(1 << 16)
        connection.close()
        listener.close()

    threading.Thread(target=hang_up, daemon=True).start()
    return Guard("http://127.0.0.1:%d" % listener.getsockname()[1])


def with_redis(db, guard):
    assert get(7) == 200
    assert get(7_000_000) == 404

    zoe = create(db, guard, "Zoe")
    assert get(zoe) == 200, "at once"
    for id in import_many(db, guard, 1_000)[::100]:
        assert get(id) == 200

    # Rolled back after the insert: a false positive, until the next rebuild.
    try:
        with db.transaction():
            (id,) = db.execute("INSERT INTO python_users (name) VALUES ('Ida') RETURNING id").fetchone()
            guard.insert(id)
            raise KeyError("something else went wrong")
    except KeyError:
        assert get(id) == 404

    # The wrong order: the user exists, and is refused until the guard is told.
    (late,) = db.execute("INSERT INTO python_users (name) VALUES ('Max') RETURNING id").fetchone()
    assert get(late) == 404
    guard.insert(late)
    assert get(late) == 200

    assert delete(db, guard, zoe), "the guard is told"
    assert get(zoe) == 404

    nobody = Guard("http://127.0.0.1:1")
    is_not_created(db, nobody, "Eva")
    is_not_created(db, silent_guard(), "Eva")
    assert not delete(db, nobody, 8), "nobody is told"
    assert get(8) == 404, "by the database"
    assert create(db, guard, "Eva"), "a new try"
    assert named(db, "Eva") == 1
    print("with Redis: all as it should be")


def without_redis(db, guard):
    is_not_created(db, guard, "Tom")
    assert get(7) == 200, "found lately"
    assert not delete(db, guard, 9), "a deletion needs no Redis, only the guard is not told"
    assert named(db, "user 9") == 0
    print("without Redis: nothing is created, and all else goes on")


if __name__ == "__main__":
    with connect() as db:
        {"with_redis": with_redis, "without_redis": without_redis}[sys.argv[1]](db, Guard(os.environ["GUARD_URL"]))
