"""The version of the package. It is that of the service, see the root package.json."""

version = "0.2.0"
