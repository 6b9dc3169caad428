#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

// A handler reaches nothing else.
static atomic_bool interrupted;

static void note_interrupt(int number)
{
    atomic_store(&interrupted, true);
    signal(number, SIG_DFL);  // the second ends the process
}

const atomic_bool *interrupt_catch(void)
{
    struct sigaction before = {0};
    struct sigaction action = {.sa_handler = note_interrupt, .sa_flags = SA_RESTART};
    atomic_store(&interrupted, false);
    sigaction(SIGINT, NULL, &before);
    sigemptyset(&action.sa_mask);
    if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
    return &interrupted;
}

void interrupt_release(void)
{
    struct sigaction now = {0};
    sigaction(SIGINT, NULL, &now);
    if (now.sa_handler == note_interrupt) signal(SIGINT, SIG_DFL);
}

bool interrupt_seen(void)
{
    return atomic_load(&interrupted);
}
