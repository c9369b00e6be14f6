// Package alert holds the rules by which what is measured of a database becomes an alert: the defaults, what accounts
// change of them and add, and how a history is judged. No I/O, no clock.
package alert
