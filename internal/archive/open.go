package archive

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	"gocloud.dev/blob/s3blob"     // s3://
)

// Options are what an Archive is made of.
type Options struct {
	// URL of the bucket: file:///… or s3://…, with the
	// parameters of gocloud.dev/blob.
	URL    string
	Logger *slog.Logger
	// Timeout is how long a bucket may leave a request without moving a byte;
	// DefaultTimeout unless set.
	Timeout time.Duration
}

// DefaultTimeout is half of what Amazon's own command line waits for.
const DefaultTimeout = 30 * time.Second

// Archive is an open bucket. It is safe for concurrent use.
type Archive struct {
	bucket *blob.Bucket
	log    *slog.Logger
	// folder is the bucket's own on this machine, "" for others: there, what is
	// written has to be brought to the disk.
	folder string
	// uploads are the bucket's where it takes objects in parts and keeps those of
	// uploads that were never ended; nil for others.
	uploads *uploads
	limit   time.Duration
}

// Open opens the bucket; the folder of a file URL is made.
func Open(ctx context.Context, o Options) (*Archive, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		return nil, fmt.Errorf("archive: %q is no URL", o.URL)
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultTimeout
	}
	if u.Scheme != "file" && u.Scheme != s3blob.Scheme {
		return nil, fmt.Errorf("archive %s: a bucket is a folder (file://) or speaks the S3 protocol (s3://)", u.Redacted())
	}
	a := &Archive{log: o.Logger, limit: stepTimeouts * o.Timeout}
	if u.Scheme == "file" {
		a.folder = u.Path
		if err := os.MkdirAll(u.Path, 0o700); err != nil {
			return nil, fmt.Errorf("archive: %w", err)
		}
		q := u.Query()
		q.Set("metadata", "skip")
		q.Set("dir_file_mode", "0700")
		q.Set("no_tmp_dir", "true") // beside its place: a rename must not cross file systems
		u.RawQuery = q.Encode()
	}
	if a.bucket, err = blob.OpenBucket(ctx, u.String()); err == nil && u.Scheme == s3blob.Scheme {
		err = a.openS3(ctx, u, o.Timeout)
	}
	if err != nil {
		return nil, fmt.Errorf("archive %s: %w", u.Redacted(), err)
	}
	return a, nil
}

// Close ends the connections.
func (a *Archive) Close() error { return a.bucket.Close() }

// attempts are made of each request to S3, with ever longer pauses in between of
// up to a pauses-th of the timeout: with the default, ten seconds of refusals
// don't end an upload of hours.
const (
	attempts = 6
	pauses   = 6
)

// openS3 opens the bucket again with a client that bounds its requests and repeats
// them for longer: the library lets neither be chosen.
func (a *Archive) openS3(ctx context.Context, u *url.URL, timeout time.Duration) error {
	var first *s3.Client
	if !a.bucket.As(&first) {
		return fmt.Errorf("%T isn't the client expected", first)
	}
	o := first.Options()
	o.HTTPClient = awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		dial := t.DialContext
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &idleTimeoutConn{c, timeout}, nil
		}
	})
	o.Retryer = retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff, o.RateLimiter = attempts, timeout/pauses, ratelimit.None
	})
	client := s3.New(o)
	opened, err := s3blob.OpenBucket(ctx, client, u.Host, &s3blob.Options{
		EncryptionType:             types.ServerSideEncryption(canonical(u.Query().Get("ssetype"))),
		KMSEncryptionID:            u.Query().Get("kmskeyid"),
		RequestChecksumCalculation: o.RequestChecksumCalculation,
	})
	if err != nil {
		return err
	}
	a.bucket, a.uploads = opened, &uploads{client, aws.String(u.Host), a}
	return nil
}

// canonical is the name of an encryption as S3 writes it.
func canonical(name string) string {
	for _, known := range types.ServerSideEncryption("").Values() {
		if strings.EqualFold(string(known), name) {
			return string(known)
		}
	}
	return name
}

// idleTimeoutConn is a connection that fails when nothing passes for too long, in
// either direction.
type idleTimeoutConn struct {
	net.Conn
	limit time.Duration
}

func (c *idleTimeoutConn) Read(p []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.limit)) // a closed one tells in Read
	return c.Conn.Read(p)
}

// Write puts off the end of a Read as well: an answer comes after its request.
func (c *idleTimeoutConn) Write(p []byte) (int, error) {
	_ = c.SetDeadline(time.Now().Add(c.limit))
	return c.Conn.Write(p)
}
