package gateway

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"
)

// patience is how long HAProxy may take to answer when the caller sets no nearer
// deadline. It answers in a tenth of a millisecond.
const patience = 5 * time.Second

// runtime is a connection to the runtime API of one HAProxy.
type runtime struct {
	conn net.Conn
	in   *bufio.Reader
}

// prompt ends every answer.
const prompt = "\n> "

func dial(ctx context.Context, socket string) (*runtime, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", socket)
	if err != nil {
		return nil, fmt.Errorf("connect to HAProxy: %w", err)
	}
	deadline, _ := ctx.Deadline()
	if err := conn.SetDeadline(deadline); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect to HAProxy: %w", err)
	}
	r := &runtime{conn: conn, in: bufio.NewReader(conn)}
	if _, err := r.run("prompt"); err != nil {
		conn.Close()
		return nil, err
	}
	return r, nil
}

func (r *runtime) close() { r.conn.Close() }

// batchSize bounds what is written before answers are read, so that neither
// side waits for the other with full buffers.
const batchSize = 4096

// run carries commands out, in few round trips, and gives their answers.
func (r *runtime) run(commands ...string) ([]string, error) {
	answers := make([]string, 0, len(commands))
	for len(commands) > 0 {
		var batch strings.Builder
		n := 0
		for n < len(commands) && (n == 0 || batch.Len()+len(commands[n]) < batchSize) {
			batch.WriteString(commands[n] + "\n")
			n++
		}
		if _, err := r.conn.Write([]byte(batch.String())); err != nil {
			return nil, fmt.Errorf("ask HAProxy: %w", err)
		}
		for range n {
			answer, err := r.answer()
			if err != nil {
				return nil, fmt.Errorf("ask HAProxy: %w", err)
			}
			answers = append(answers, answer)
		}
		commands = commands[n:]
	}
	return answers, nil
}

// ask carries one command out.
func (r *runtime) ask(command string) (string, error) {
	answers, err := r.run(command)
	if err != nil {
		return "", err
	}
	return answers[0], nil
}

// answer reads to the next prompt. The commands run here answer no line that
// begins like one.
func (r *runtime) answer() (string, error) {
	var text []byte
	for {
		part, err := r.in.ReadSlice('>')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return "", err
		}
		text = append(text, part...)
		if !bytes.HasSuffix(text, []byte("\n>")) {
			continue
		}
		space, err := r.in.ReadByte()
		if err != nil {
			return "", err
		}
		text = append(text, space)
		if space == ' ' {
			return strings.TrimSpace(string(text[:len(text)-len(prompt)])), nil
		}
	}
}
