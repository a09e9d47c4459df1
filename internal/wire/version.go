package wire

// ProductVersion is the version of this release, spec/versions.md. What the
// protocol speaks is Version.
const ProductVersion = "0.1.0"
