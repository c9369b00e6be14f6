package operator

import (
	"context"
	"fmt"

	"steward/internal/control"
	"steward/internal/fault"
	"steward/internal/monitor"
)

// Reply writes to a ticket of any account, as a member of the staff; public: the
// account's status pages show it.
func (x *Access) Reply(ctx context.Context, id monitor.TicketID, staff, text string, public bool) error {
	err := control.New(control.Deps{Store: x.store}).Tickets.Answer(ctx, id, staff, text, public)
	if fault.IsKind(err, fault.NotFound) {
		return fmt.Errorf("there is no ticket %d", id)
	}
	return err
}
