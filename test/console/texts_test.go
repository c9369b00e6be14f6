package console

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Sentences of scripts, and words between tags.
var (
	sentence = regexp.MustCompile("[\"`]([A-Z][a-z']+ [^\"`]*)[\"`]")
	between  = regexp.MustCompile(`>\s*([A-Z][a-z]+[^<>{}=;()]*)</`)
)

// code are sentences that are no text for people, of a statement's plan, and names of products.
var code = regexp.MustCompile(`^(Index Cond|Hash Cond|Merge Cond|Join Filter|Sort Key|Node Type|Relation Name|Index Name|Total Cost|Plan Rows|Terraform)$`)

// TestTexts: all that the console says is in one file, and every kind of event has its words there.
func TestTexts(t *testing.T) {
	t.Parallel()
	sources, err := filepath.Glob("../../web/src/*.ts*")
	if err != nil || len(sources) < 20 {
		t.Fatal(sources, err)
	}
	read := func(path string) string {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, path := range sources {
		switch filepath.Base(path) {
		case "text.ts", "api.ts", "connect.ts": // the texts; types; lines of other languages
			continue
		}
		for line := range strings.Lines(read(path)) {
			if strings.HasPrefix(strings.TrimSpace(line), "//") {
				continue
			}
			for _, found := range append(sentence.FindAllStringSubmatch(line, -1), between.FindAllStringSubmatch(line, -1)...) {
				if !code.MatchString(strings.TrimSpace(found[1])) {
					t.Errorf("%s says %q itself", path, found[1])
				}
			}
		}
	}
	texts := read("../../web/src/text.ts")
	actions := regexp.MustCompile(`Action = "([a-z_]+)"`).FindAllStringSubmatch(read("../../internal/operation/operation.go"), -1)
	if len(actions) < 50 {
		t.Fatalf("%d actions", len(actions))
	}
	for _, action := range actions {
		if !regexp.MustCompile(`\b` + action[1] + `: "[A-Z]`).MatchString(texts) {
			t.Errorf("there are no words for %s", action[1])
		}
	}
}
