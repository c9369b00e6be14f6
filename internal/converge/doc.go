// Package converge is endless upkeep, without input: every database that no
// operation is in charge of is looked at again and again, brought back to what
// was asked for when it isn't there, and its status moved to what is seen. A
// look takes one pass; the next look is the retry. The first look at each
// database after a start adopts it: what changed while nobody ran is made good.
package converge
