"""Builds the extension. librdkafka is not needed: its functions are looked up at run time."""

import platform

from setuptools import Extension, setup

SOURCES = ("client", "librdkafka", "module", "newest", "reader", "run", "updater", "writer")

setup(
    ext_modules=[
        Extension(
            "headwater_native._clients",
            sources=[f"src/{name}.c" for name in SOURCES],
            depends=["src/changes.h", "src/client.h", "src/librdkafka.h", "src/python.h"],
            extra_compile_args=["-std=c11", "-fvisibility=hidden", "-Wall", "-Wextra"],
            libraries=["dl", "pthread"] if platform.system() == "Linux" else [],
            py_limited_api=True,
        )
    ],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
)
