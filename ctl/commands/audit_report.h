/* What an audit says in the end. */
#ifndef SECKILL_CTL_COMMANDS_AUDIT_REPORT_H
#define SECKILL_CTL_COMMANDS_AUDIT_REPORT_H

#include "ctl/commands/audit_read.h"

/* Prints the report. Returns the exit status: EX_OK consistent, EX_REFUSED a difference,
 * EX_TEMPFAIL unclear, as the sale moved while it was read. */
int audit_report(const struct audit *audit);

#endif
