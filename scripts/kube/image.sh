# Sourced by the cluster's scripts.

# image NAME PROGRAM ARCHIVE: writes a docker archive with one static program in its root, without
# registry or daemon.
image() {
  local work program
  work=$(mktemp -d)
  program=$(basename "$2")
  install -m 0755 "$2" "$work/$program"
  tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -C "$work" -cf "$work/layer.tar" "$program"
  printf '{"architecture":"%s","os":"linux","config":{"Entrypoint":["/%s"],"User":"65532:65532"},"rootfs":{"type":"layers","diff_ids":["sha256:%s"]}}' \
    "$(go env GOARCH)" "$program" "$(sha256sum "$work/layer.tar" | cut -d' ' -f1)" >"$work/config.json"
  printf '[{"Config":"config.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$1" >"$work/manifest.json"
  tar -C "$work" -cf "$3" manifest.json config.json layer.tar
  rm -rf "$work"
}
