//go:build ignore

// Command image packs bin/steward as a container image: the program, which is static, the certificates of authorities and a folder for
// temporary files, nothing else. It needs no privileges and no daemon, and makes the same file of the same parts. The file is an OCI layout that `ctr images import`,
// `podman load`, `docker load` and skopeo read.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// user is who the program runs as: a number, since there are no names.
const user = "65532:65532"

func main() {
	program := flag.String("program", "bin/steward", "the program, built without cgo")
	authorities := flag.String("authorities", "/etc/ssl/certs/ca-certificates.crt", "the certificates of authorities that servers are believed by")
	name := flag.String("name", "steward:latest", "what the image is called")
	out := flag.String("out", "bin/steward-image.tar", "the file")
	level := flag.Int("level", gzip.DefaultCompression, "of gzip: 1 is fast, 9 small")
	flag.Parse()
	if err := run(*program, *authorities, *name, *out, *level); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(program, authorities, name, out string, level int) error {
	var layers []layer
	for _, files := range [][]file{
		{{path: "etc/", mode: 0o755}, {path: "etc/ssl/", mode: 0o755}, {path: "etc/ssl/certs/", mode: 0o755}, {path: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, from: authorities}, {path: "tmp/", mode: 0o1777}},
		{{path: "usr/", mode: 0o755}, {path: "usr/bin/", mode: 0o755}, {path: "usr/bin/steward", mode: 0o755, from: program}},
	} {
		l, err := pack(files, level)
		if err != nil {
			return err
		}
		layers = append(layers, l)
	}
	config, err := configure(layers)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := write(f, name, config, layers); err != nil {
		return err
	}
	return f.Close()
}

// file is one of a layer; a folder when its path ends in a slash.
type file struct {
	path string
	mode int64
	from string
}

// layer is a compressed archive, and the digest of what is in it.
type layer struct {
	content []byte
	diff    string
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func pack(files []file, level int) (layer, error) {
	var plain bytes.Buffer
	t := tar.NewWriter(&plain)
	for _, f := range files {
		content := []byte(nil)
		header := &tar.Header{Name: f.path, Mode: f.mode, Typeflag: tar.TypeDir, ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
		if f.from != "" {
			var err error
			if content, err = os.ReadFile(f.from); err != nil {
				return layer{}, err
			}
			header.Typeflag, header.Size = tar.TypeReg, int64(len(content))
		}
		if err := add(t, header, content); err != nil {
			return layer{}, err
		}
	}
	if err := t.Close(); err != nil {
		return layer{}, err
	}
	var packed bytes.Buffer
	z, err := gzip.NewWriterLevel(&packed, level)
	if err != nil {
		return layer{}, err
	}
	if _, err := z.Write(plain.Bytes()); err != nil {
		return layer{}, err
	}
	if err := z.Close(); err != nil {
		return layer{}, err
	}
	return layer{packed.Bytes(), digest(plain.Bytes())}, nil
}

func add(t *tar.Writer, header *tar.Header, content []byte) error {
	if err := t.WriteHeader(header); err != nil {
		return err
	}
	_, err := t.Write(content)
	return err
}

// configure is what the image says of how it is run.
func configure(layers []layer) ([]byte, error) {
	diffs := make([]string, len(layers))
	for i, l := range layers {
		diffs[i] = "sha256:" + l.diff
	}
	return json.Marshal(map[string]any{
		"architecture": runtime.GOARCH, "os": "linux",
		"config": map[string]any{"User": user, "Entrypoint": []string{"/usr/bin/steward"}, "Env": []string{"PATH=/usr/bin"}, "WorkingDir": "/"},
		"rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	})
}

// descriptor names a part of the layout.
func descriptor(kind string, content []byte) map[string]any {
	return map[string]any{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + digest(content), "size": len(content)}
}

// write writes the layout, and beside it what older programs look for.
func write(w io.Writer, name string, config []byte, layers []layer) error {
	blobs := [][]byte{config}
	var described []any
	var paths []string
	for _, l := range layers {
		blobs = append(blobs, l.content)
		described = append(described, descriptor("layer.v1.tar+gzip", l.content))
		paths = append(paths, "blobs/sha256/"+digest(l.content))
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": descriptor("config.v1+json", config), "layers": described,
	})
	if err != nil {
		return err
	}
	blobs = append(blobs, manifest)
	entry := descriptor("manifest.v1+json", manifest)
	entry["annotations"] = map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{entry}})
	if err != nil {
		return err
	}
	older, err := json.Marshal([]any{map[string]any{"Config": "blobs/sha256/" + digest(config), "RepoTags": []string{name}, "Layers": paths}})
	if err != nil {
		return err
	}
	t := tar.NewWriter(w)
	all := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index, "manifest.json": older}
	for _, name := range []string{"oci-layout", "index.json", "manifest.json"} {
		if err := add(t, header(name, all[name]), all[name]); err != nil {
			return err
		}
	}
	for _, blob := range blobs {
		if err := add(t, header("blobs/sha256/"+digest(blob), blob), blob); err != nil {
			return err
		}
	}
	return t.Close()
}

func header(name string, content []byte) *tar.Header {
	return &tar.Header{Name: name, Mode: int64(fs.FileMode(0o644)), Typeflag: tar.TypeReg, Size: int64(len(content)), ModTime: time.Unix(0, 0), Format: tar.FormatUSTAR}
}
