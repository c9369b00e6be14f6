// Package nft keeps one table of the kernel's packet filter (nf_tables) as it is
// wanted, by netlink. It touches no other table.
//
// What a table is to hold is a [Ruleset]: chains with rules, sets and maps with
// elements. [Table.Change] makes one out of another with a single transaction, which the kernel takes
// whole or not at all, and reads back what it changed. [Table.Read] reads
// everything, for whoever has to find out what somebody else did to the table; the
// kernel's generation ([Table.Generation]) tells cheaply that nobody did anything.
//
// Rules that stay aren't touched: those that count connections keep their counts.
package nft
