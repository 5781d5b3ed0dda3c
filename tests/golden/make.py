#!/usr/bin/env python3
"""Writes vectors.json: what the stored format looks like, byte by byte.

This is a second implementation, written from the specification in src/filter/stored/format.rs and from the
papers, in plain Python: SipHash-2-4-128, MurmurHash3 x64-128, SplitMix64, CRC-32 by zlib, and the
false-positive rate in closed form with 60 digits. It shares nothing with the crate.

    python3 tests/golden/make.py            # writes tests/golden/vectors.json
    python3 tests/golden/make.py --check    # fails when the file is not what would be written
"""

import json
import struct
import sys
import zlib
from decimal import Decimal, getcontext
from math import comb
from pathlib import Path

U64 = (1 << 64) - 1
MAGIC = int.from_bytes(b"BLMGUARD", "big")


def rotl(x, n):
    return ((x << n) | (x >> (64 - n))) & U64


# SipHash-2-4 with 128 bits of output.


def sip_rounds(v, n):
    for _ in range(n):
        v[0] = (v[0] + v[1]) & U64
        v[1] = rotl(v[1], 13) ^ v[0]
        v[0] = rotl(v[0], 32)
        v[2] = (v[2] + v[3]) & U64
        v[3] = rotl(v[3], 16) ^ v[2]
        v[0] = (v[0] + v[3]) & U64
        v[3] = rotl(v[3], 21) ^ v[0]
        v[2] = (v[2] + v[1]) & U64
        v[1] = rotl(v[1], 17) ^ v[2]
        v[2] = rotl(v[2], 32)


def siphash128(key, data):
    k0, k1 = struct.unpack("<QQ", key)
    v = [
        0x736F6D6570736575 ^ k0,
        0x646F72616E646F6D ^ k1 ^ 0xEE,
        0x6C7967656E657261 ^ k0,
        0x7465646279746573 ^ k1,
    ]
    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        sip_rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    sip_rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    sip_rounds(v, 4)
    return struct.pack("<QQ", first, v[0] ^ v[1] ^ v[2] ^ v[3])


# MurmurHash3 x64-128.


def fmix(x):
    x ^= x >> 33
    x = x * 0xFF51AFD7ED558CCD & U64
    x ^= x >> 33
    x = x * 0xC4CEB9FE1A85EC53 & U64
    return x ^ x >> 33


def murmur3(data, seed):
    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F

    def mix1(k):
        return rotl(k * c1 & U64, 31) * c2 & U64

    def mix2(k):
        return rotl(k * c2 & U64, 33) * c1 & U64

    h1 = h2 = seed
    whole = len(data) // 16 * 16
    for k1, k2 in struct.iter_unpack("<QQ", data[:whole]):
        h1 = (rotl(h1 ^ mix1(k1), 27) + h2) * 5 + 0x52DCE729 & U64
        h2 = (rotl(h2 ^ mix2(k2), 31) + h1) * 5 + 0x38495AB5 & U64
    tail = data[whole:]
    h1 ^= mix1(int.from_bytes(tail[:8], "little"))
    h2 ^= mix2(int.from_bytes(tail[8:], "little"))
    h1, h2 = h1 ^ len(data), h2 ^ len(data)
    h1 = h1 + h2 & U64
    h2 = h2 + h1 & U64
    h1, h2 = fmix(h1), fmix(h2)
    h1 = h1 + h2 & U64
    return h1, h2 + h1 & U64


def signed(x):
    return x - (1 << 64) if x >> 63 else x


def self_check():
    """Published vectors: SipHash's reference, the documentation of mmh3, the CRC catalogue."""
    key = bytes(range(16))
    assert siphash128(key, b"").hex() == "a3817f04ba25a8e66df67214c7550293"
    assert siphash128(key, b"\0").hex() == "da87c1d86b99af44347659119b22fc45"
    assert tuple(map(signed, murmur3(b"foo", 0))) == (-2129773440516405919, 9128664383759220103)
    h1, h2 = murmur3(b"foo", 42)
    assert h2 << 64 | h1 == 215966891540331383248189432718888555506
    assert split_mix(1234567, 1) == 6457827717110365317
    assert zlib.crc32(b"123456789") == 0xCBF43926


# The format.


def digest(key, namespace, id):
    return siphash128(key, bytes([len(namespace)]) + namespace + id)


def split_mix(start, n):
    z = start + n * 0x9E3779B97F4A7C15 & U64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & U64
    z = (z ^ z >> 27) * 0x94D049BB133111EB & U64
    return z ^ z >> 31


def position(digest, blocks, hashes, seed):
    """The block, and the positions in it as they come: unsorted, some twice."""
    h1, h2 = murmur3(digest, seed)
    bits = []
    for i in range(hashes):
        word = h2 if i < 7 else split_mix(h2, i // 7)
        bits.append(word >> 9 * (i % 7) & 511)
    return h1 * blocks >> 64, bits


def header(state, hashes, generation, nonce, blocks, seed, key_id, run, items, capacity, rate):
    def frame(state):
        return struct.pack(
            ">8sHBBB3xqQIIIIIIf", b"BLMGUARD", 2, 1, state, hashes, generation, nonce, blocks,
            seed, key_id, run, items, capacity, rate,
        )

    return frame(state) + struct.pack(">I", zlib.crc32(frame(0)))


def trailer(generation):
    return bytes(56) + struct.pack(">Q", MAGIC ^ generation)


def filter_string(digests, **fields):
    blocks, hashes, seed = fields["blocks"], fields["hashes"], fields["seed"]
    string = bytearray(header(**fields)) + bytearray(64 + 64 * blocks) + trailer(fields["generation"])
    for d in digests:
        block, bits = position(d, blocks, hashes, seed)
        for bit in bits:
            offset = (128 + 64 * block) * 8 + bit
            string[offset >> 3] |= 0x80 >> (offset & 7)
    return bytes(string)


def rate(blocks, hashes, items):
    """The Poisson mixture in closed form, by inclusion and exclusion over the probe's positions.

    All of d positions are set after m throws with probability sum (-1)^i C(d, i) (1 - i/512)^m; the
    Poisson mean over m = hashes * ids has a closed form; d positions are distinct as in S(hashes, d).
    """
    getcontext().prec = 60
    distinct = [Decimal(1)] + [Decimal(0)] * hashes
    for _ in range(hashes):
        distinct = [
            distinct[d] * d / 512 + (distinct[d - 1] * (513 - d) / 512 if d else 0)
            for d in range(hashes + 1)
        ]
    load = Decimal(items) / blocks
    missed = [(-load * (1 - (1 - Decimal(i) / 512) ** hashes)).exp() for i in range(hashes + 1)]
    return sum(
        share * sum((-1) ** i * comb(d, i) * missed[i] for i in range(d + 1))
        for d, share in enumerate(distinct)
    )


# The vectors.

KEY = bytes.fromhex("000102030405060708090a0b0c0d0e0f")
OTHER_KEY = bytes.fromhex("fedcba98765432100123456789abcdef")

DIGESTS = [
    (KEY, "users", b"42"),
    (KEY, "users", b"43"),
    (KEY, "orders", b"42"),
    (KEY, "", b""),
    (KEY, "users", bytes(range(256))),
    (KEY, "n" * 64, "Zoë".encode()),
    (OTHER_KEY, "users", b"42"),
    (OTHER_KEY, "users", b"0190b6c8-5f5e-7c3a-9d2e-3f6b1a2c4d5e"),
]

GEOMETRIES = [
    (1, 1, 0),
    (4, 6, 42),
    (4, 7, 42),
    (4, 8, 42),
    (30_251, 9, 0xDEADBEEF),
    (1_000_003, 16, 1),
    (8_388_605, 32, 0xFFFFFFFF),
]

HEADERS = [
    dict(state=0x33, hashes=1, generation=1, nonce=0, blocks=1, seed=0, key_id=0, run=0, items=0,
         capacity=1, rate=0.5),
    dict(state=0x33, hashes=9, generation=1_767_225_600_123_456, nonce=0x0123456789ABCDEF,
         blocks=30_251, seed=0xDEADBEEF, key_id=0x89ABCDEF, run=0x10203040, items=999_999,
         capacity=1_000_000, rate=0.001),
    dict(state=0x55, hashes=32, generation=(1 << 53) - 2, nonce=U64, blocks=8_388_605,
         seed=0xFFFFFFFF, key_id=0xFFFFFFFE, run=0xFFFFFFFD, items=0xFFFFFFFF,
         capacity=0xFFFFFFFF, rate=1e-9),
]

FILTER = dict(state=0x55, hashes=9, generation=1_767_225_600_123_456, nonce=0xFEEDFACECAFEBEEF,
              blocks=4, seed=42, key_id=0x01020304, run=0x05060708, items=10, capacity=100,
              rate=0.01)
FILTER_IDS = ["1", "2", "3", "10", "42", "1000", "alice", "bob", "Zoë", ""]

RATES = [
    (1, 1, 1), (1, 1, 355), (3, 6, 100), (14_500, 5, 1_000_000), (19_336, 6, 1_000_000),
    (30_300, 9, 1_000_000), (43_000, 12, 1_000_000), (75_700, 16, 1_000_000),
    (140_000, 22, 1_000_000), (1_000, 32, 20_000), (10, 5, 10_000), (8_388_605, 9, 1_000),
]


def vectors():
    digests = [
        {"key": key.hex(), "namespace": namespace, "id": id.hex(),
         "digest": digest(key, namespace.encode(), id).hex()}
        for key, namespace, id in DIGESTS
    ]
    positions = []
    for blocks, hashes, seed in GEOMETRIES:
        for entry in digests[:4]:
            block, bits = position(bytes.fromhex(entry["digest"]), blocks, hashes, seed)
            start = (128 + 64 * block) * 8
            positions.append({
                "digest": entry["digest"], "blocks": blocks, "hashes": hashes, "seed": seed,
                "block": block, "byte_offset": 128 + 64 * block,
                "bit_offsets": sorted({start + bit for bit in bits}),
            })
    members = [digest(KEY, b"users", id.encode()) for id in FILTER_IDS]
    return {
        "digests": digests,
        "positions": positions,
        "headers": [
            {**fields, "header": header(**fields).hex(),
             "trailer": trailer(fields["generation"]).hex()}
            for fields in HEADERS
        ],
        "filter": {
            **FILTER, "key": KEY.hex(), "namespace": "users", "ids": FILTER_IDS,
            "string": filter_string(members, **FILTER).hex(),
        },
        "rates": [
            {"blocks": blocks, "hashes": hashes, "items": items,
             "rate": float(rate(blocks, hashes, items))}
            for blocks, hashes, items in RATES
        ],
    }


def main():
    self_check()
    path = Path(__file__).with_name("vectors.json")
    text = json.dumps(vectors(), indent=1, ensure_ascii=True) + "\n"
    if sys.argv[1:] == ["--check"]:
        if path.read_text() != text:
            sys.exit(f"{path.name} is out of date")
    else:
        path.write_text(text)


if __name__ == "__main__":
    main()
