package cli

import (
	"reflect"
	"testing"

	"github.com/alecthomas/kong"
)

// TestGrammar: of a command line that names a command, only that command is read; of any other, all are.
func TestGrammar(t *testing.T) {
	t.Parallel()
	all, err := kong.New(new(commands))
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range all.Model.Children {
		one, err := kong.New(grammar([]string{command.Name, "--help"}))
		if err != nil {
			t.Fatal(err)
		}
		if found := one.Model.Children; len(found) != 1 || found[0].Name != command.Name || found[0].Target.Type() != command.Target.Type() {
			t.Errorf("of %s: %v", command.Name, found)
		}
	}
	for _, args := range [][]string{nil, {"--help"}, {"nothing"}, {"--help", "db"}, {"DB"}} {
		if of := reflect.TypeOf(grammar(args)); of != reflect.TypeFor[*commands]() {
			t.Errorf("of %q: %s", args, of)
		}
	}
}
