// Package barman knows what barman-cloud (3.x) leaves in a bucket: for each server a folder with base/ID/, a base backup, and
// wals/FIRST16/, the archived WAL. It removes what no backup needs any more, since the plugin of CloudNativePG only does that by age.
package barman

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/s3blob"
)

// Options say where a bucket is.
type Options struct {
	// Destination is s3://BUCKET/PATH, as barman has it, and Endpoint the server's URL; Amazon's own when empty.
	Destination, Endpoint string
	// Region is Amazon's; us-east-1 unless set.
	Region                      string
	AccessKey, SecretKey, Token string
	// CA are certificates that the server's may be issued with, beside the system's; PEM.
	CA []byte
}

// answerTime is how long a bucket may think about a request, and attempts how often one is made.
const (
	answerTime = 20 * time.Second
	attempts   = 4
)

// Open makes a client. It asks the bucket nothing.
func Open(ctx context.Context, o Options) (*Store, error) {
	u, err := url.Parse(o.Destination)
	if err != nil || u.Scheme != "s3" || u.Host == "" {
		return nil, fmt.Errorf("destinationPath is %q, and only s3://BUCKET/PATH can be read", o.Destination)
	}
	if o.AccessKey == "" || o.SecretKey == "" {
		return nil, errors.New("s3Credentials have to name the secrets with accessKeyId and secretAccessKey: steward reads the bucket, too")
	}
	transport, err := o.transport()
	if err != nil {
		return nil, err
	}
	options := s3.Options{
		Region: o.Region, HTTPClient: transport, UsePathStyle: o.Endpoint != "",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: o.AccessKey, SecretAccessKey: o.SecretKey, SessionToken: o.Token, Source: "steward"}, nil
		}),
		Retryer:                    retry.NewStandard(func(r *retry.StandardOptions) { r.MaxAttempts = attempts }),
		RequestChecksumCalculation: aws.RequestChecksumCalculationWhenRequired,
		ResponseChecksumValidation: aws.ResponseChecksumValidationWhenRequired,
	}
	if options.Region == "" {
		options.Region = "us-east-1"
	}
	if o.Endpoint != "" {
		options.BaseEndpoint = &o.Endpoint
	}
	bucket, err := s3blob.OpenBucket(ctx, s3.New(options), u.Host, &s3blob.Options{RequestChecksumCalculation: options.RequestChecksumCalculation})
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", u.Host, err)
	}
	prefix := strings.Trim(path.Clean("/"+u.Path), "/")
	if prefix != "" {
		prefix += "/"
	}
	return &Store{Bucket: bucket, Prefix: prefix}, nil
}

func (o Options) transport() (*awshttp.BuildableClient, error) {
	var roots *x509.CertPool
	if len(o.CA) > 0 {
		roots, _ = x509.SystemCertPool() // nil, and then made anew, where there is none
		if roots == nil {
			roots = x509.NewCertPool()
		}
		if !roots.AppendCertsFromPEM(o.CA) {
			return nil, errors.New("endpointCA holds no certificate")
		}
	}
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.ResponseHeaderTimeout = answerTime
		if roots != nil {
			t.TLSClientConfig.RootCAs = roots
		}
	}), nil
}

// Store is a path in a bucket. It is safe for concurrent use.
type Store struct {
	Bucket *blob.Bucket
	// Prefix is "", or ends with a slash.
	Prefix string
}

// Close ends the connections.
func (s *Store) Close() error { return s.Bucket.Close() }
