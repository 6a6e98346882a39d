//! The testing kit: scripted models and drivers, mock tools, a frozen clock, recorders and validators.
