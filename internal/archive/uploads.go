package archive

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"
)

// uploads are objects that S3 was given parts of, by a server that was killed or
// couldn't say any more that it gave up. They are in no list of objects, stay for
// ever, and are paid for.
type uploads struct {
	client *s3.Client
	bucket *string
	a      *Archive
}

// small makes an upload begin to send at the first part: the library holds 16 MiB
// back to see whether there will be more. Nil where there are no parts.
func (u *uploads) small(part int) func(func(any) bool) error {
	if u == nil {
		return nil
	}
	return func(as func(any) bool) error {
		var manager *transfermanager.Client
		if !as(&manager) {
			return errors.New("the library doesn't upload by parts any more")
		}
		*manager = *transfermanager.New(u.client, func(o *transfermanager.Options) {
			o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency = int64(part), int64(part), 1
			o.RequestChecksumCalculation = u.client.Options().RequestChecksumCalculation
		})
		return nil
	}
}

// each does something with all uploads below a prefix. Nothing, where the bucket
// or its rules don't let them be listed.
func (u *uploads) each(ctx context.Context, prefix string, do func(types.MultipartUpload) error) error {
	if u == nil {
		return nil
	}
	pages := s3.NewListMultipartUploadsPaginator(u.client, &s3.ListMultipartUploadsInput{Bucket: u.bucket, Prefix: aws.String(prefix)})
	for pages.HasMorePages() {
		var page *s3.ListMultipartUploadsOutput
		err := u.a.step(ctx, func(ctx context.Context) (err error) { page, err = pages.NextPage(ctx); return err })
		switch {
		case noUpload(err): // some stores say so when there are none at all
			return nil
		case slices.Contains([]int{http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented}, statusOf(err)):
			u.a.log.DebugContext(ctx, "unfinished uploads can't be listed", "error", err)
			return nil
		}
		for i := 0; err == nil && i < len(page.Uploads); i++ {
			err = do(page.Uploads[i])
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// abort ends all uploads below a prefix.
func (u *uploads) abort(ctx context.Context, prefix string) error {
	return u.each(ctx, prefix, func(found types.MultipartUpload) error {
		err := u.a.step(ctx, func(ctx context.Context) error {
			_, err := u.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: u.bucket, Key: found.Key, UploadId: found.UploadId})
			return err
		})
		if noUpload(err) {
			return nil
		}
		return err
	})
}

func noUpload(err error) bool {
	said, ok := errors.AsType[smithy.APIError](err)
	return ok && said.ErrorCode() == "NoSuchUpload"
}
