// Package measure holds what is measured of databases: the metrics there are, how
// readings of counters become rates, and how their history is packed, made coarser
// and put together.
package measure
