package statement

// Open tells, piece by piece, whether a statement of MySQL's or MariaDB's goes on: it ends within a literal, a quoted name or a
// comment. Backslashes escape, as they do unless a session wants otherwise. The zero value is at the beginning.
type Open struct {
	// in is the byte that what is open began with, 0 for none; '*' is /* */, '\n' a comment up to the end of the line.
	in byte
	// last is the byte before, as far as it matters: 0 after an escaped one.
	last byte
}

// Read goes on to the end of text.
func (o *Open) Read(text string) {
	for i := range len(text) {
		c := text[i]
		switch {
		case o.in == 0:
			o.outside(c)
		case o.in == '\n':
			if c == '\n' {
				o.in = 0
			}
			o.last = c
		case o.in == '*':
			if o.last == '*' && c == '/' {
				o.in, c = 0, 0
			}
			o.last = c
		case o.last == '\\' && o.in != '`':
			o.last = 0
		default:
			if c == o.in {
				o.in = 0 // a doubled quote begins another literal, which is the same
			}
			o.last = c
		}
	}
}

// outside reads a byte that is in nothing.
func (o *Open) outside(c byte) {
	switch {
	case c == '\'', c == '"', c == '`':
		o.in, c = c, 0
	case c == '#', o.last == '=' && isSpace(c):
		o.in = '\n'
		if c == '\n' {
			o.in = 0
		}
	case o.last == '/' && c == '*':
		o.in, c = '*', 0
	case o.last == '-' && c == '-':
		c = '=' // two dashes, of which white space makes a comment
	case c == '=':
		c = 0 // stands for itself
	}
	o.last = c
}

// Within reports whether the statement goes on.
func (o *Open) Within() bool { return o.in != 0 }
