package migration_test

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"steward/internal/migration"
)

// TestRestricted: the dump's own marks go, ours come first, and what only looks like a mark stays.
func TestRestricted(t *testing.T) {
	long := strings.Repeat("x", 200<<10) + `\restrict tail`
	for name, c := range map[string]struct{ dump, want string }{
		"none":           {"SELECT 1;\n", "SELECT 1;\n"},
		"own":            {"--\n-- dump\n\n\\restrict abc\n\nSELECT 1;\n\\unrestrict abc\n", "--\n-- dump\n\n\nSELECT 1;\n"},
		"windows":        {"\\restrict abc\r\nSELECT 1;\r\n\\unrestrict abc\r\n", "SELECT 1;\r\n"},
		"late":           {"SELECT 1;\n\\restrict abc\n\\unrestrict abc\n", "SELECT 1;\n\\restrict abc\n\\unrestrict abc\n"},
		"another":        {"\\restrict abc\nx\n\\unrestrict abd\n\\unrestrict OURS\n", "x\n\\unrestrict abd\n\\unrestrict OURS\n"},
		"second":         {"\\restrict abc\n\\restrict def\n", "\\restrict def\n"},
		"within a line":  {"\\restrict abc\n" + long + "\n", long + "\n"},
		"no end of line": {"SELECT 1", "SELECT 1"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := io.ReadAll(migration.Restricted(iotest.OneByteReader(strings.NewReader(c.dump)), "OURS"))
			if want := "\\restrict OURS\n" + c.want; err != nil || string(got) != want {
				t.Errorf("got %.200q, %v; want %.200q", got, err, want)
			}
		})
	}
}

// TestUndefined: lines that say whose something is lose that, and data that looks like it stays.
func TestUndefined(t *testing.T) {
	dump := strings.Join([]string{
		"/*!999999\\- enable the sandbox mode */ ",
		"/*!999999\\- enable the sandbox mode */",
		"/*!50013 DEFINER=`root`@`local``host` SQL SECURITY DEFINER */",
		"/*!50003 CREATE*/ /*!50017 DEFINER=`root`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.x = 1 */;;",
		"CREATE DEFINER=`a b`@`%` PROCEDURE `p`()",
		"INSERT INTO `a` VALUES ('CREATE DEFINER=`root`@`%` x');", "",
	}, "\n")
	want := strings.Join([]string{
		"/*!999999\\- enable the sandbox mode */",
		"/*!999999\\- enable the sandbox mode */ ",
		"/*!50013  SQL SECURITY DEFINER */",
		"/*!50003 CREATE*/ /*!50017 */ /*!50003 TRIGGER t BEFORE INSERT ON a FOR EACH ROW SET NEW.x = 1 */;;",
		"CREATE  PROCEDURE `p`()",
		"INSERT INTO `a` VALUES ('CREATE DEFINER=`root`@`%` x');", "",
	}, "\n")
	got, err := io.ReadAll(migration.WithoutDefiners(strings.NewReader(dump), true))
	if err != nil || string(got) != want {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
	got, err = io.ReadAll(migration.WithoutDefiners(strings.NewReader("/*!999999\\- enable the sandbox mode */\nx\n"), false))
	if err != nil || string(got) != "x\n" {
		t.Errorf("for other clients: got %q, %v", got, err)
	}
}
