# shellcheck shell=bash
# The OCI image of a release, made from binaries alone, without a daemon: for each processor one layer with one file, and an index over
# them. The same binaries and the same SOURCE_DATE_EPOCH give the same bytes. lib.sh and packages.sh have to be read before.

SUMMARY="CNI plugins in Rust, in place of those of the CNI project"

# pack_image OUT ARCH BINARY [ARCH BINARY]...
pack_image() {
    local out=$1 layout manifests=() name
    shift
    name=cni-plugins-rs-image-v$(our_version)
    layout=$(mktemp -d)
    mkdir -p "$layout/blobs/sha256"
    while [ $# -gt 0 ]; do
        manifests+=("$(image_of "$layout" "$1" "$2")")
        shift 2
    done
    printf '{"imageLayoutVersion":"1.0.0"}' >"$layout/oci-layout"
    printf '%s\n' "${manifests[@]}" | jq --slurp --compact-output \
        '{ schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json", manifests: . }' >"$layout/index"
    blob "$layout" "$layout/index" application/vnd.oci.image.index.v1+json |
        jq --compact-output --arg tag "cni-plugins-rs:$(our_version)" '{ schemaVersion: 2, mediaType: "application/vnd.oci.image.index.v1+json",
            manifests: [. + { annotations: { "org.opencontainers.image.ref.name": $tag } }] }' >"$layout/index.json"
    settle "$layout"
    reproducible_tar "$layout" blobs index.json oci-layout >"$out/$name.tar"
    rm -rf "$layout"
}

# image_of LAYOUT ARCH BINARY: adds the image for one processor, and prints the descriptor of its manifest.
image_of() {
    local layout=$1 arch=$2 root layer
    root=$(mktemp -d)
    install -m 0755 "$3" "$root/cni-plugins"
    settle "$root"
    reproducible_tar "$root" cni-plugins >"$layout/layer"
    rm -rf "$root"
    local content
    content=$(sha256sum <"$layout/layer")
    gzip --no-name --best "$layout/layer"
    layer=$(blob "$layout" "$layout/layer.gz" application/vnd.oci.image.layer.v1.tar+gzip)
    jq --null-input --compact-output --arg arch "$arch" --arg content "sha256:${content%% *}" --arg version "$(our_version)" \
        --arg time "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)" --arg title "$SUMMARY" '{
            created: $time, architecture: $arch, os: "linux",
            config: { Entrypoint: ["/cni-plugins"], Cmd: ["install", "/host/opt/cni/bin"], Labels: {
                "org.opencontainers.image.title": $title, "org.opencontainers.image.version": $version,
                "org.opencontainers.image.licenses": "Apache-2.0" } },
            rootfs: { type: "layers", diff_ids: [$content] },
            history: [{ created: $time, created_by: "scripts/release.sh" }] }' >"$layout/config"
    blob "$layout" "$layout/config" application/vnd.oci.image.config.v1+json |
        jq --compact-output --argjson layer "$layer" '{ schemaVersion: 2, mediaType: "application/vnd.oci.image.manifest.v1+json",
            config: ., layers: [$layer] }' >"$layout/manifest"
    blob "$layout" "$layout/manifest" application/vnd.oci.image.manifest.v1+json |
        jq --compact-output --arg arch "$arch" '. + { platform: { architecture: $arch, os: "linux" } }'
}

# blob LAYOUT FILE TYPE: moves a file to its place by its digest, and prints its descriptor.
blob() {
    local digest size
    digest=$(sha256sum <"$2")
    size=$(stat --format=%s "$2")
    mv "$2" "$1/blobs/sha256/${digest%% *}"
    jq --null-input --compact-output --arg type "$3" --arg digest "sha256:${digest%% *}" --argjson size "$size" \
        '{ mediaType: $type, digest: $digest, size: $size }'
}
