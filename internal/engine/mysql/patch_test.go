package mysql

import (
	"slices"
	"testing"
)

func TestSplitScript(t *testing.T) {
	got := splitScript([]byte(`-- a comment; not a statement;
# another;
SET a = 1;

CREATE TABLE t (
  -- inside
  v int
);
DELIMITER $$
CREATE PROCEDURE p()
BEGIN
  SELECT 1;
END$$
delimiter ;
  SELECT ';' ,
  2 ;
`))
	want := []string{
		"SET a = 1",
		"CREATE TABLE t (\n  -- inside\n  v int\n)",
		"CREATE PROCEDURE p()\nBEGIN\n  SELECT 1;\nEND",
		"SELECT ';' ,\n  2",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}
