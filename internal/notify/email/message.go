package email

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"net/mail"
	"strconv"
	"strings"
	"time"
	"unicode"

	gomail "github.com/wneessen/go-mail"
	"golang.org/x/net/idna"

	"steward/internal/monitor"
	"steward/internal/notify"
)

//go:embed letter.html
var letterHTML string

var page = template.Must(template.New("letter").Parse(letterHTML))

// message is a notice as RFC 5322 has it. It is the same at each attempt but for
// the boundary between its parts.
func message(n monitor.Notice, from *mail.Address, to string) ([]byte, error) {
	letter := n.Letter()
	var html bytes.Buffer
	err := page.Execute(&html, struct {
		monitor.Letter
		Recovered, Planned bool
	}{letter, n.Kind == monitor.NoticeRecovered, n.Content.Maintenance != nil || n.Kind == monitor.NoticeGrown})
	if err != nil {
		return nil, fmt.Errorf("write the HTML part: %w", err)
	}
	m := gomail.NewMsg(gomail.WithNoDefaultUserAgent())
	m.FromMailAddress(from)
	m.ToMailAddress(&mail.Address{Name: printable(n.Name), Address: to})
	m.Subject(letter.Subject)
	m.SetDateWithValue(n.Created)
	m.SetMessageIDWithValue(messageID(n.ID, n.Created, from.Address))
	if n.Opening != 0 {
		opening := "<" + messageID(n.Opening, n.OpeningCreated, from.Address) + ">"
		m.SetGenHeader(gomail.HeaderInReplyTo, opening)
		m.SetGenHeader(gomail.HeaderReferences, opening)
	}
	// RFC 3834: no vacation notice may answer.
	m.SetGenHeader("Auto-Submitted", "auto-generated")
	m.SetGenHeader("X-Auto-Response-Suppress", "All")
	m.SetBodyString(gomail.TypeTextPlain, letter.Text())
	m.AddAlternativeString(gomail.TypeTextHTML, html.String())
	var text bytes.Buffer
	if _, err := m.WriteTo(&text); err != nil {
		return nil, fmt.Errorf("write the message: %w", err)
	}
	return text.Bytes(), nil
}

// messageID is the same at each attempt, so that a repeated message is known for
// one; the time keeps stewards with stores of their own apart.
func messageID(id monitor.NoticeID, created time.Time, from string) string {
	_, domain, _ := strings.Cut(from, "@")
	return fmt.Sprintf("notice.%d.%s@%s", id, strconv.FormatInt(created.UnixMicro(), 36), domain)
}

// printable keeps a name in its header.
func printable(name string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, name))
}

// recipient is the address as it is given to the server, and whether that must know
// RFC 6531 for it.
func recipient(address string) (to string, international bool, err error) {
	parsed, err := mail.ParseAddress(address)
	if err != nil || parsed.Address != address || strings.ContainsFunc(address, unicode.IsControl) {
		return "", false, &notify.Error{Problem: "The recipient's address isn't one.", Permanent: true}
	}
	at := strings.LastIndexByte(address, '@')
	local, domain := address[:at], address[at+1:]
	if !ascii(domain) {
		if domain, err = idna.Lookup.ToASCII(domain); err != nil {
			return "", false, &notify.Error{Problem: "The recipient's domain isn't one.", Permanent: true}
		}
	}
	return local + "@" + domain, !ascii(local), nil
}

func ascii(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}
