package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func at(ms int) time.Time { return epoch.Add(time.Duration(ms) * time.Millisecond) }

func acksAt(times ...int) []ack {
	var all []ack
	for i, ms := range times {
		all = append(all, ack{row{1, 0, int64(i)}, at(ms)})
	}
	return all
}

func TestLongestGap(t *testing.T) {
	for _, c := range []struct {
		name       string
		acks       []ack
		fault, end int
		want       time.Duration
	}{
		{"around the fault", acksAt(10, 20, 520, 530), 25, 540, 500 * time.Millisecond},
		{"answers in flight do not end it", acksAt(10, 20, 26, 27, 900, 905), 25, 910, 873 * time.Millisecond},
		{"one from before the fault is another's", acksAt(0, 800, 810, 830), 805, 840, 20 * time.Millisecond},
		{"the second of two", acksAt(10, 100, 400), 15, 410, 300 * time.Millisecond},
		{"still open", acksAt(10, 20), 25, 1020, 1000 * time.Millisecond},
		{"open again", acksAt(10, 100), 15, 1100, 1000 * time.Millisecond},
		{"nothing before", acksAt(300), 100, 310, 200 * time.Millisecond},
		{"nothing at all", nil, 100, 400, 300 * time.Millisecond},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := longestGap(c.acks, at(c.fault), at(c.end)); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestAcksAreInOrderOfTime(t *testing.T) {
	l := &load{writers: []*writer{{acks: acksAt(10, 30)}, {acks: acksAt(5, 20, 40)}}}
	acks := l.acks()
	for i := 1; i < len(acks); i++ {
		if acks[i].at.Before(acks[i-1].at) {
			t.Errorf("%v comes after %v", acks[i].at, acks[i-1].at)
		}
	}
	if len(acks) != 5 {
		t.Errorf("%d acks, want 5", len(acks))
	}
	if !l.anyAfter(at(35)) || l.everyAfter(at(35)) || !l.everyAfter(at(25)) || l.anyAfter(at(40)) {
		t.Error("who was answered last is mistaken")
	}
}

func TestCheck(t *testing.T) {
	acks := acksAt(1, 2, 3)
	found := map[row]int{
		{1, 0, 0}: 1,
		{1, 0, 2}: 2,
		{1, 0, 9}: 1, // written, though the answer was lost
		{2, 0, 1}: 1, // of another round: as good as seq 1 of this one it is not
	}
	v := check(acks, found)
	if len(v.lost) != 1 || v.lost[0] != (row{1, 0, 1}) {
		t.Errorf("lost %v, want the row with seq 1", v.lost)
	}
	if v.duplicates != 1 {
		t.Errorf("%d duplicates, want 1", v.duplicates)
	}
	if v := check(nil, nil); len(v.lost) != 0 || v.duplicates != 0 {
		t.Errorf("of nothing, %+v", v)
	}
}

func TestIsBroken(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{&pgconn.PgError{Code: "57P01"}, true},
		{&pgconn.PgError{Code: "25006"}, false},
		{&pgconn.PgError{Code: "23505"}, false},
		{&mysql.MySQLError{Number: 1053}, true},
		{&mysql.MySQLError{Number: 1290}, false},
		{mysql.ErrInvalidConn, true},
		{fmt.Errorf("insert: %w", context.DeadlineExceeded), true},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		{io.ErrUnexpectedEOF, true},
		{errors.New("no such table"), false},
	} {
		if got := isBroken(c.err); got != c.want {
			t.Errorf("%v: broken %v, want %v", c.err, got, c.want)
		}
	}
}
