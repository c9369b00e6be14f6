package kubernetes

import (
	"strings"
)

// versionOf is what an image's tag begins with, such as 15.18 of registry/postgresql:15.18-bookworm@sha256:…; "" when its
// tag isn't one of a version.
func versionOf(image string) string {
	image, _, _ = strings.Cut(image, "@")
	_, tag, tagged := strings.Cut(image[strings.LastIndexByte(image, '/')+1:], ":")
	if !tagged {
		return ""
	}
	end := strings.IndexFunc(tag, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if end >= 0 {
		tag = tag[:end]
	}
	return strings.Trim(tag, ".")
}
