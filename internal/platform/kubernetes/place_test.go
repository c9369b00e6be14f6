package kubernetes

import (
	"encoding/json"
	"strings"
	"testing"

	"steward/internal/platform/kubernetes/barman"
	"steward/internal/platform/kubernetes/cnpg"
)

// TestPlaceOf: what the region's ObjectStore says is told to MariaDB's operator in its own words, with the secrets by their names.
func TestPlaceOf(t *testing.T) {
	t.Parallel()
	key := func(key string) *cnpg.KeyReference { return &cnpg.KeyReference{Name: "backups", Key: key} }
	keys := &cnpg.S3Credentials{AccessKeyID: key("id"), SecretAccessKey: key("secret")}
	const told = `"accessKeyIdSecretKeyRef":{"name":"backups","key":"id"},"secretAccessKeySecretKeyRef":{"name":"backups","key":"secret"}`
	for name, v := range map[string]struct {
		said   cnpg.BarmanConfiguration
		region string
		want   string
		wrong  string
	}{
		"Amazon's": {
			cnpg.BarmanConfiguration{DestinationPath: "s3://shop/databases", S3Credentials: keys},
			"eu-central-1",
			`{"bucket":"shop","endpoint":"s3.amazonaws.com","prefix":"databases/db-7-x-b3/","region":"eu-central-1",` + told + `,"tls":{"enabled":true}}`, "",
		},
		"a server of one's own": {
			cnpg.BarmanConfiguration{DestinationPath: "s3://shop/", EndpointURL: "https://s3.example:9000/", EndpointCA: key("ca"), S3Credentials: keys},
			"",
			`{"bucket":"shop","endpoint":"s3.example:9000","prefix":"db-7-x-b3/",` + told + `,"tls":{"enabled":true,"caSecretKeyRef":{"name":"backups","key":"ca"}}}`, "",
		},
		"without TLS": {
			cnpg.BarmanConfiguration{DestinationPath: "s3://shop/a/b/", EndpointURL: "http://10.0.0.1:9000", S3Credentials: keys},
			"",
			`{"bucket":"shop","endpoint":"10.0.0.1:9000","prefix":"a/b/db-7-x-b3/",` + told + `}`, "",
		},
		"with a token": {
			cnpg.BarmanConfiguration{DestinationPath: "s3://shop", EndpointURL: "http://s3", S3Credentials: &cnpg.S3Credentials{AccessKeyID: key("id"), SecretAccessKey: key("secret"), SessionToken: key("token")}},
			"", `{"bucket":"shop","endpoint":"s3","prefix":"db-7-x-b3/",` + told + `,"sessionTokenSecretKeyRef":{"name":"backups","key":"token"}}`, "",
		},
		"below a path": {cnpg.BarmanConfiguration{DestinationPath: "s3://shop", EndpointURL: "https://s3.example/tenant"}, "", "", "a host and a port"},
		"nowhere":      {cnpg.BarmanConfiguration{DestinationPath: "s3://shop", EndpointURL: "s3.example"}, "", "", "a host and a port"},
	} {
		got, err := placeOf(v.said, barman.Options{Region: v.region}, "db-7-x-b3")
		if v.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), v.wrong) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		text, _ := json.Marshal(got) // strings
		if err != nil || string(text) != v.want {
			t.Errorf("%s: %s, %v\nwant %s", name, text, err, v.want)
		}
	}
}
