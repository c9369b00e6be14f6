package engine

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"
)

func archived(t *testing.T, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := NewArchiveWriter(&b)
	for part := range bytes.SplitSeq(content, []byte("-")) {
		if _, err := w.Write(part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.End(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestArchiveRoundTrip(t *testing.T) {
	for _, content := range []string{"", "a", "one-two-three", string(bytes.Repeat([]byte("page"), 200_000))} {
		want := bytes.ReplaceAll([]byte(content), []byte("-"), nil)
		whole := archived(t, []byte(content))
		for name, from := range map[string]io.Reader{
			"at once": bytes.NewReader(whole), "in halves": iotest.HalfReader(bytes.NewReader(whole)),
		} {
			r := NewArchiveReader(from)
			got, err := io.ReadAll(r)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes of %d came back: %v", name, len(got), len(want), err)
			}
			if err := r.Finish(); err != nil {
				t.Errorf("%s: finish: %v", name, err)
			}
		}
	}
}

func TestArchiveDamaged(t *testing.T) {
	whole := archived(t, []byte("one-two-three"))
	for cut := range len(whole) {
		if err := NewArchiveReader(bytes.NewReader(whole[:cut])).Finish(); !errors.Is(err, ErrDamaged) {
			t.Errorf("cut to %d bytes: %v", cut, err)
		}
	}
	for at := range whole {
		changed := bytes.Clone(whole)
		changed[at] ^= 1
		if err := NewArchiveReader(bytes.NewReader(changed)).Finish(); !errors.Is(err, ErrDamaged) {
			t.Errorf("byte %d changed: %v", at, err)
		}
	}
	if err := NewArchiveReader(bytes.NewReader(append(bytes.Clone(whole), 0))).Finish(); !errors.Is(err, ErrDamaged) {
		t.Errorf("a byte more: %v", err)
	}
}

func TestArchiveReadError(t *testing.T) {
	broken := errors.New("the line is dead")
	whole := archived(t, []byte("one-two-three"))
	for cut := range len(whole) {
		r := NewArchiveReader(io.MultiReader(bytes.NewReader(whole[:cut]), iotest.ErrReader(broken)))
		if err := r.Finish(); !errors.Is(err, broken) {
			t.Errorf("after %d bytes: %v", cut, err)
		}
	}
}
